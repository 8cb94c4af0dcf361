/* SPDX-License-Identifier: MIT */
#include "cli/problem_set.h"

#include "common/base/bytes.h"

#include <stdlib.h>
#include <string.h>

#define NUMBERS_SIZE (PROBLEM_NUMBERS * sizeof(uint32_t))

static const void *numbers_of(const struct kiln_problem *problem) { return &problem->direction; }

struct known_problem {
    struct hash_link link;
    size_t index;
};

/* The low bits of FNV-1a depend only on the low bits of each byte.  Problems whose sizes are
 * multiples of 64 have the same low bits, so this function mixes the high bits of the hash into the
 * low ones. */
static uint64_t hash_problem(const struct kiln_problem *problem)
{
    uint64_t hash = bytes_hash(bytes_of(numbers_of(problem), NUMBERS_SIZE), 0);
    return hash ^ hash >> 29;
}

bool problem_set_has(const struct problem_set *set, const struct kiln_problem *problem)
{
    HASH_EACH (&set->known, hash_problem(problem), const struct known_problem, link, k)
        if (memcmp(numbers_of(&set->problems[k->index]), numbers_of(problem), NUMBERS_SIZE) == 0)
            return true;
    return false;
}

static bool grow_set(struct problem_set *set)
{
    size_t capacity = set->capacity ? 2 * set->capacity : 128;
    void *problems = reallocarray(set->problems, capacity, sizeof(*set->problems));
    if (problems)
        set->problems = problems;
    void *lines = reallocarray(set->lines, capacity, sizeof(*set->lines));
    if (lines)
        set->lines = lines;
    if (problems && lines)
        set->capacity = capacity;
    return problems && lines;
}

int problem_set_add(struct problem_set *set, const struct kiln_problem *problem, unsigned line,
                    struct kiln_error *err)
{
    if (problem_set_has(set, problem)) {
        set->repeats++;
        return KILN_E_OK;
    }
    bool has_space = set->count < set->capacity || grow_set(set);
    struct known_problem *known = has_space ? malloc(sizeof(*known)) : NULL;
    if (!known)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory after %zu problems", set->count);
    known->index = set->count;
    hash_table_add(&set->known, &known->link, hash_problem(problem));
    set->problems[set->count] = *problem;
    set->lines[set->count++] = line;
    return KILN_E_OK;
}

void problem_set_done(struct problem_set *set)
{
    HASH_ALL (&set->known, struct known_problem, link, known)
        free(known);
    hash_table_done(&set->known);
    free(set->problems);
    free(set->lines);
    *set = (struct problem_set){ 0 };
}
