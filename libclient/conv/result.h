/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What find and tune found: entries with texts of their own.
 *
 * Ownership  a result owns its entries and holds its plan; a list owns its entries' texts
 * Threading  built by one thread, then immutable
 */
#include "common/err.h"
#include "libclient/conv/timing.h"

#include <kiln/conv.h>

struct conv_list {
    struct kiln_conv_entry *entries; /* owned, and the texts in them */
    unsigned count, room;
};

struct kiln_conv_result {
    struct conv_list solvers, trials;
    struct kiln_plan *plan;       /* counted; NULL: none */
    struct kiln_err not_recorded; /* code KILN_OK: all of it was, or nothing was to be */
};

/* NULL when out of memory. */
struct kiln_conv_result *conv_result_create(void);
static inline void kiln_conv_result_auto(struct kiln_conv_result **result)
{
    kiln_conv_result_free(*result);
}

/* A copy of |entry| and its texts (NULL: "") at the end. */
KILN_MUST_CHECK enum kiln_code conv_list_add(struct conv_list *list,
                                             const struct kiln_conv_entry *entry,
                                             struct kiln_err *err);
/* By time: those timed or recorded first, then those cut short, then the rest as they were. */
void conv_list_sort(struct conv_list *list);
