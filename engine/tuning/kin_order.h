/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Keeps the records of all families in order, so that the nearest record of a family is found
 * without a scan.
 *
 * Role       a set ordered by family, volume and batch size; each step of a walk takes logarithmic
 *            time, however many problems of one family a user measures
 * Ownership  links are embedded in records; the set owns the nodes of its tree
 * Threading  one thread (the engine's)
 *
 * A walk returns the members of a family, the nearest first. Of two members, the nearer one is the
 * one whose volume differs from the wanted volume by the smaller factor. If these factors are
 * equal, the batch sizes decide in the same way.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin_link {           /* must not change while it is in the set */
    uint64_t family;        /* hash of the family's name and of the tier, user, kind, database id
                             * and backend */
    uint64_t volume, batch; /* see struct kinship; not 0 */
};

struct kin_order { /* a zeroed struct is an empty order */
    void *root;
    size_t count;
};

#define KIN_NODE_BYTES 48u

/* Returns false if memory runs out. */
bool kin_order_add(struct kin_order *order, const struct kin_link *link);
void kin_order_remove(struct kin_order *order, const struct kin_link *link);

/* Of the members with this volume that a walk has not returned yet, the two nearest to the wanted
 * batch size. |below| has a batch size up to the wanted one, |above| has a larger one. */
struct kin_group {
    const struct kin_link *below, *above; /* NULL: none */
    uint64_t volume;
};

struct kin_walk {
    const struct kin_order *order;
    struct kin_link wanted;
    /* The walk next returns the nearest member of these groups. |small| has a volume up to the
     * wanted volume, |large| a larger one. */
    struct kin_group small, large;
};

void kin_walk_begin(struct kin_walk *walk, const struct kin_order *order,
                    const struct kin_link *wanted);
/* Returns NULL after the last member. The order must not change during a walk. */
const struct kin_link *kin_walk_next(struct kin_walk *walk);
