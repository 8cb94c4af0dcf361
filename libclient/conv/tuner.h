/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The state of tuning one solver.
 *
 * Ownership  a tuner owns its search, window, journal, queue and sharing; the rest is borrowed
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
    struct journal *journal;
    unsigned known;
    /* number of trials that are not repeated, because the journal has their results */
    unsigned remembered;
    /* The trial that was received or run last failed for a reason that may be temporary, so the
     * journal must not record the failure. */
    bool is_temporary;
    size_t *queue;
    size_t queued, capacity;
    struct sharing *sharing;
    /* Only what is faster than the solver's recorded time counts, and processes with the same
     * problem try different configs. */
    bool is_by_record;
    /* the candidates, or a sample of them, were added to the search */
    bool has_known_neighbours;
};

KILN_MUST_CHECK enum kiln_code tuner_queue(struct tuner *tuner, const char *config,
                                           struct kiln_err *err);
/* Queues the valid candidates from |first| to |first| + |count| - 1. */
KILN_MUST_CHECK enum kiln_code tuner_queue_range(struct tuner *tuner, uint32_t first,
                                                 uint32_t count, struct kiln_err *err);
/* Queues the valid candidates of the whole space, or of a sample of it. */
KILN_MUST_CHECK enum kiln_code tuner_queue_space(struct tuner *tuner, struct kiln_err *err);
