/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Many items, sorted in short pieces.
 *
 * Role       sorting millions of items at once takes seconds.  Here the caller adds some thousand
 *            items and sorts these as a run, again and again.  Then it takes the items of all runs
 *            in order, one at a time: a heap has the next item of each run
 * Ownership  owns copies of the items; a zeroed struct is empty
 * Threading  one thread at a time
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sorted_run {
    size_t next, end; /* items */
};

struct sorted_runs {
    uint8_t *items; /* owned */
    size_t item_size, count, max;
    struct sorted_run *runs; /* owned; while items are taken, a heap by the next item */
    size_t run_count, run_max;
    size_t sorted; /* items in runs */
    /* The order of two items; never 0. */
    int (*compare)(const void *a, const void *b, void *context);
};

void sorted_runs_done(struct sorted_runs *runs);
/* False: out of memory. */
bool sorted_runs_add(struct sorted_runs *runs, const void *item);
/* Sorts the items that were added since the last call.  False: out of memory. */
bool sorted_runs_end_run(struct sorted_runs *runs, void *context);
/* Call it once, after the last run. */
void sorted_runs_merge(struct sorted_runs *runs, void *context);
/* The next item in order, until sorted_runs_pop; NULL: none is left. */
const void *sorted_runs_peek(const struct sorted_runs *runs);
void sorted_runs_pop(struct sorted_runs *runs, void *context);
