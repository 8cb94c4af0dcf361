/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Plans of one problem, several in flight: what a search for the best perf config asks for.
 *
 * Role       the caller decides plan by plan what to ask; what compiles does so while the caller
 *            measures what came
 * Ownership  a window owns what is under way; plans are the caller's once they are handed out
 * Threading  one thread
 */
#include "libclient/failure.h"
#include "libclient/plans/plan.h"

struct plan_window;

/* |room|: plans in flight at a time. */
KILN_MUST_CHECK enum kiln_code plan_window_create(struct kiln_client *client,
                                                  const struct problem *problem, unsigned room,
                                                  struct plan_window **ret_window,
                                                  struct kiln_err *err);
void plan_window_destroy(struct plan_window *window); /* accepts NULL; abandons what is open */
KILN_DEFINE_AUTO(plan_window)

bool plan_window_is_full(const struct plan_window *window);
/* Only while it is not full.  |options->target| must live as long as the window; |tag| names it. */
KILN_MUST_CHECK enum kiln_code plan_window_ask(struct plan_window *window,
                                               const struct kiln_plan_options *options, size_t tag,
                                               struct kiln_err *err);

struct planned {
    size_t tag;
    struct kiln_plan *plan; /* the caller's; NULL: */
    enum kiln_code code;    /* why there is none, which |failure| says */
};
/* Waits for the next.  KILN_NOT_FOUND where none is open; another failure means that the rest will
 * not come in time: it stays open, and may be waited for again. */
KILN_MUST_CHECK enum kiln_code plan_window_next(struct plan_window *window, uint64_t deadline_ns,
                                                struct planned *ret_planned,
                                                struct failure *failure);
/* Takes everything back that is open. */
void plan_window_clear(struct plan_window *window);
