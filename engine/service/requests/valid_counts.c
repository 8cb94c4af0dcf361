/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/valid_counts.h"

#include <stdlib.h>
#include <string.h>

/* Number of cached counts. The hash of a question selects one of them, and a new count replaces the
 * old one. */
#define VALID_COUNTS 128

struct valid_counts {
    struct valid_count places[VALID_COUNTS];
};

enum kiln_code valid_counts_create(struct valid_counts **ret_counts, struct kiln_err *err)
{
    struct valid_counts *counts = calloc(1, sizeof(*counts));
    if (!counts)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the cache of valid points");
    *ret_counts = counts;
    return KILN_OK;
}

void valid_counts_destroy(struct valid_counts *counts) { free(counts); }

static size_t place_of(const struct solver *solver, const struct problem *problem,
                       const struct target *target)
{
    uint64_t hash = bytes_hash(bytes_of(problem, sizeof(*problem)), 0);
    hash = bytes_hash(bytes_of_text(target->text), hash + target->has_tensor_maps);
    return bytes_hash(bytes_of_text(solver->name), hash) % VALID_COUNTS;
}

bool valid_counts_find(const struct valid_counts *counts, const struct solver *solver,
                       const struct problem *problem, const struct target *target,
                       struct candidate_count *ret_count)
{
    const struct valid_count *c = &counts->places[place_of(solver, problem, target)];
    if (c->solver != solver || !problem_equal(&c->problem, problem) ||
        strcmp(c->target.text, target->text) != 0 ||
        c->target.has_tensor_maps != target->has_tensor_maps)
        return false;
    *ret_count = c->count;
    return true;
}

void valid_counts_keep(struct valid_counts *counts, const struct valid_count *count)
{
    counts->places[place_of(count->solver, &count->problem, &count->target)] = *count;
}
