/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sorts many items in short pieces (an external merge sort in memory).
 *
 * Role       divides a sort that would take seconds into short calls.  The caller adds some
 *            thousand items, sorts them as a run, and repeats this.  At the end the caller takes
 *            the items of all runs in order
 * Ownership  owns copies of the items; a zeroed struct is empty
 * Threading  one thread at a time
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sorted_run {
    size_t next, end;
};

struct sorted_runs {
    uint8_t *items; /* owned */
    size_t item_size, count, max;
    /* Owned; while items are taken, a heap ordered by each run's next item. */
    struct sorted_run *runs;
    size_t run_count, run_max;
    size_t sorted;
    /* Compares two items like qsort(3); must not return 0. */
    int (*compare)(const void *a, const void *b, void *context);
};

void sorted_runs_done(struct sorted_runs *runs);
bool sorted_runs_add(struct sorted_runs *runs, const void *item);
bool sorted_runs_end_run(struct sorted_runs *runs, void *context);
void sorted_runs_merge(struct sorted_runs *runs, void *context);
/* Returns the next item in order, valid until sorted_runs_pop; NULL at the end. */
const void *sorted_runs_peek(const struct sorted_runs *runs);
void sorted_runs_pop(struct sorted_runs *runs, void *context);
