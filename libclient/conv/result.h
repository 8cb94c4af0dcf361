/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The result of find and tune: entries that own their texts.
 *
 * Ownership  a result owns its entries and holds a reference to its plan; a list owns its entries'
 *            texts
 * Threading  built by one thread, then immutable, except for the plan (soon.c)
 */
#include "common/base/err.h"
#include "libclient/conv/timing.h"

#include <kiln/conv.h>

struct conv_list {
    struct kiln_conv_entry *entries;
    unsigned count, capacity;
};

struct kiln_conv_result {
    struct conv_list solvers, trials;
    struct kiln_plan *plan;
    /* Why recording failed.  KILN_OK if everything was recorded, or there was nothing to record. */
    struct kiln_err not_recorded;
    /* The watched problem, borrowed from the client; NULL if the plan is final.  soon.c sets both
     * members. */
    struct soon_watch *watch;
    uint64_t generation;
};

struct kiln_conv_result *conv_result_create(void);
static inline void kiln_conv_result_auto(struct kiln_conv_result **result)
{
    kiln_conv_result_free(*result);
}

/* Copies |entry| and its texts.  A NULL text becomes "". */
KILN_MUST_CHECK enum kiln_code conv_list_add(struct conv_list *list,
                                             const struct kiln_conv_entry *entry,
                                             struct kiln_err *err);
/* Sorts the entries: first those that were timed or recorded, by time; then those that were cut
 * short, by time; then the rest, in their old order. */
void conv_list_sort(struct conv_list *list);
