/* SPDX-License-Identifier: MIT */
#include "cli/problem_set.h"

#include <stdlib.h>
#include <string.h>

#define NUMBERS_SIZE (PROBLEM_NUMBERS * sizeof(uint32_t))

static const void *numbers_of(const struct kiln_problem *problem) { return &problem->direction; }

static size_t hash_problem(const struct kiln_problem *problem)
{
    const unsigned char *at = numbers_of(problem);
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < NUMBERS_SIZE; i++)
        h = (h ^ at[i]) * 1099511628211u;
    return (size_t)(h ^ (h >> 29));
}

/* The slot that holds |problem| or the empty one where it belongs. */
static size_t *find_slot(const struct problem_set *set, const struct kiln_problem *problem)
{
    size_t at = hash_problem(problem) % set->slot_count;
    for (;; at = (at + 1) % set->slot_count) {
        size_t *slot = &set->slots[at];
        if (!*slot ||
            memcmp(numbers_of(&set->problems[*slot - 1]), numbers_of(problem), NUMBERS_SIZE) == 0)
            return slot;
    }
}

static int fail_memory(const struct problem_set *set, struct kiln_error *err)
{
    return cli_fail(err, KILN_E_NO_MEMORY, "out of memory after %zu problems", set->count);
}

/* Slots are twice the problems, so the table is never more than half full. */
static int grow_set(struct problem_set *set, struct kiln_error *err)
{
    size_t capacity = set->capacity ? 2 * set->capacity : 128;
    void *problems = reallocarray(set->problems, capacity, sizeof(*set->problems));
    if (!problems)
        return fail_memory(set, err);
    set->problems = problems;
    void *lines = reallocarray(set->lines, capacity, sizeof(*set->lines));
    if (!lines)
        return fail_memory(set, err);
    set->lines = lines;
    size_t *slots = calloc(2 * capacity, sizeof(*slots));
    if (!slots)
        return fail_memory(set, err);
    free(set->slots);
    set->slots = slots;
    set->slot_count = 2 * capacity;
    set->capacity = capacity;
    for (size_t i = 0; i < set->count; i++)
        *find_slot(set, &set->problems[i]) = i + 1;
    return KILN_E_OK;
}

int problem_set_add(struct problem_set *set, const struct kiln_problem *problem, unsigned line,
                    struct kiln_error *err)
{
    int rc = set->count == set->capacity ? grow_set(set, err) : KILN_E_OK;
    if (rc)
        return rc;
    size_t *slot = find_slot(set, problem);
    if (*slot) {
        set->repeats++;
        return KILN_E_OK;
    }
    set->problems[set->count] = *problem;
    set->lines[set->count] = line;
    *slot = ++set->count;
    return KILN_E_OK;
}

void problem_set_done(struct problem_set *set)
{
    free(set->problems);
    free(set->lines);
    free(set->slots);
    *set = (struct problem_set){ 0 };
}
