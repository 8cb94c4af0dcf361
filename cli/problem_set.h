/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A set of distinct problems, in insertion order.
 *
 * Ownership  the set owns its arrays; problem_set_done accepts a zeroed set
 * Threading  one thread for each set
 */
#include "cli/fail.h"
#include "common/base/hash_table.h"

#include <kiln/problem.h>

/* A problem's members from direction to allow_tf32 are numbers without padding, in the order of the
 * wire format.  So a whole problem can be compared, hashed and sent as bytes. */
#define PROBLEM_NUMBERS 26
_Static_assert(offsetof(struct kiln_problem, allow_tf32) + sizeof(uint32_t) -
                       offsetof(struct kiln_problem, direction) ==
                   PROBLEM_NUMBERS * sizeof(uint32_t),
               "struct kiln_problem has padding inside");

struct problem_set {
    struct kiln_problem *problems;
    unsigned *lines; /* for each problem, the first line of the file that has it */
    size_t count, capacity;
    size_t repeats;
    struct hash_table known;
};

bool problem_set_has(const struct problem_set *set, const struct kiln_problem *problem);
CLI_MUST_CHECK int problem_set_add(struct problem_set *set, const struct kiln_problem *problem,
                                   unsigned line, struct kiln_error *err);
void problem_set_done(struct problem_set *set);
