/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests many plans for one problem, with several requests in flight.  The search for the best
 * perf config uses such a window.
 *
 * Role       lets the caller request plans one after the other, so that kilnd compiles them while
 *            the caller measures earlier plans
 * Ownership  a window owns its in-flight requests; the caller owns returned plans
 * Threading  one thread
 */
#include "libclient/failure.h"
#include "libclient/plans/plan.h"

struct plan_window;

KILN_MUST_CHECK enum kiln_code plan_window_create(struct kiln_client *client,
                                                  const struct problem *problem, unsigned limit,
                                                  struct plan_window **ret_window,
                                                  struct kiln_err *err);
void plan_window_destroy(struct plan_window *window); /* abandons in-flight requests */
KILN_DEFINE_AUTO(plan_window)

bool plan_window_is_full(const struct plan_window *window);
/* Requests a plan.  Only allowed while fewer than |limit| plans are in flight.  |options->target|
 * must stay valid as long as the window.  |tag| identifies the plan in the answer. */
KILN_MUST_CHECK enum kiln_code plan_window_ask(struct plan_window *window,
                                               const struct kiln_plan_options *options, size_t tag,
                                               struct kiln_err *err);

struct planned {
    size_t tag;
    struct kiln_plan *plan; /* owned by the caller; NULL on failure */
    enum kiln_code code;    /* KILN_OK if |plan| is set, else the failure's code */
};
/* Returns KILN_NOT_FOUND if no request is in flight.  After any other failure, no further plan
 * comes before the deadline.  The requests stay in flight, and the caller may wait again. */
KILN_MUST_CHECK enum kiln_code plan_window_next(struct plan_window *window, uint64_t deadline_ns,
                                                struct planned *ret_planned,
                                                struct failure *failure);
void plan_window_clear(struct plan_window *window);
