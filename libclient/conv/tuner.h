/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One solver being tuned.
 *
 * Ownership  a tuner owns its search, window, journal and queue; the rest is borrowed
 * Threading  one thread
 */
#include "libclient/conv/journal.h"
#include "libclient/conv/work.h"
#include "libclient/plans/plan_window.h"
#include "libclient/plans/solutions.h"

struct tuner {
    struct work *work;
    struct work_solver *solver;
    uint64_t start_ns, until_ns;
    struct search search;
    struct plan_window *window;
    struct journal *journal; /* NULL: none is kept */
    unsigned known;          /* configs that were known before the search */
    unsigned remembered;     /* trials of a journal that are not repeated */
    bool is_passing;         /* what came last failed, and may not when it is asked for again */
    size_t *queue;           /* trials in the order in which they are tried */
    size_t queued, room;
};

/* Behind the others in the queue. */
KILN_MUST_CHECK enum kiln_code tuner_queue(struct tuner *tuner, const char *config,
                                           struct kiln_err *err);
/* The valid ones of candidates |first| to |first| + |count| - 1. */
KILN_MUST_CHECK enum kiln_code tuner_queue_range(struct tuner *tuner, uint32_t first,
                                                 uint32_t count, struct kiln_err *err);
/* All configs of the space, or a sample of it, for search_refine to choose among. */
KILN_MUST_CHECK enum kiln_code tuner_know_neighbours(struct tuner *tuner, struct kiln_err *err);
