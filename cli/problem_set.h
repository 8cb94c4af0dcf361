/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A set of distinct problems, in insertion order.
 *
 * Ownership  the set owns its arrays; problem_set_done accepts a zeroed set
 * Threading  one set, one thread
 */
#include "cli/fail.h"

#include <kiln/problem.h>

struct problem_set {
    struct kiln_problem *problems; /* owned */
    unsigned *lines;               /* owned: the first line with each problem */
    size_t count, capacity;
    size_t repeats; /* problems added again and ignored */
    size_t *slots;  /* owned: hash table of index + 1 */
    size_t slot_count;
};

CLI_MUST_CHECK int problem_set_add(struct problem_set *set, const struct kiln_problem *problem,
                                   unsigned line, struct kiln_error *err);
void problem_set_done(struct problem_set *set);
