/* SPDX-License-Identifier: MIT */
/*
 * A struct kin_order is a binary tree of tsearch(3). From the root, tfind() goes down to where the
 * key belongs, and compares the key with each node on this way. The last node that is less than the
 * key and the last that is greater are the key's neighbours. So this file calls tfind() with a
 * comparison function that never returns 0 and remembers both nodes.
 */
#include "engine/tuning/kin_order.h"

#include <search.h>

static int compare_numbers(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int compare_places(const struct kin_link *a, const struct kin_link *b)
{
    int c = compare_numbers(a->family, b->family);
    if (!c)
        c = compare_numbers(a->volume, b->volume);
    return c ? c : compare_numbers(a->batch, b->batch);
}

static int compare_links(const void *a, const void *b)
{
    int c = compare_places(a, b);
    return c ? c : compare_numbers((uintptr_t)a, (uintptr_t)b);
}

bool kin_order_add(struct kin_order *order, const struct kin_link *link)
{
    if (!tsearch(link, &order->root, compare_links))
        return false;
    order->count++;
    return true;
}

void kin_order_remove(struct kin_order *order, const struct kin_link *link)
{
    if (tdelete(link, &order->root, compare_links))
        order->count--;
}

struct probe {
    const struct kin_link *at;
    /* Links with equal members are ordered by their addresses.  The comparison uses this address
     * instead of |at|'s: 0 comes before all links with |at|'s members, UINTPTR_MAX after them. */
    uintptr_t address;
    const struct kin_link *left, *right;
};

static int compare_probe(const void *key, const void *node)
{
    struct probe *probe = (struct probe *)(uintptr_t)key;
    const struct kin_link *link = node;
    int c = compare_places(probe->at, link);
    if (!c)
        c = probe->address > (uintptr_t)link ? 1 : -1;
    *(c > 0 ? &probe->left : &probe->right) = link;
    return c;
}

static struct probe find_neighbours(const struct kin_order *order, const struct kin_link *at,
                                    uintptr_t address)
{
    struct probe probe = { .at = at, .address = address };
    (void)tfind(&probe, &order->root, compare_probe);
    return probe;
}

static const struct kin_link *same_family(const struct kin_link *link, uint64_t family)
{
    return link && link->family == family ? link : NULL;
}

static const struct kin_link *same_group(const struct kin_link *link, const struct kin_link *as)
{
    return link && link->family == as->family && link->volume == as->volume ? link : NULL;
}

static const struct kin_link *link_before(const struct kin_order *order,
                                          const struct kin_link *link)
{
    return same_group(find_neighbours(order, link, (uintptr_t)link).left, link);
}

static const struct kin_link *link_behind(const struct kin_order *order,
                                          const struct kin_link *link)
{
    return same_group(find_neighbours(order, link, (uintptr_t)link + 1).right, link);
}

static struct kin_group find_group(const struct kin_walk *walk, uint64_t volume)
{
    const struct kin_link at = { walk->wanted.family, volume, walk->wanted.batch };
    struct probe probe = find_neighbours(walk->order, &at, UINTPTR_MAX);
    return (struct kin_group){ .below = same_group(probe.left, &at),
                               .above = same_group(probe.right, &at),
                               .volume = volume };
}

static bool is_empty(const struct kin_group *group) { return !group->below && !group->above; }

/* Returns the group with the next volume below |volume|, or an empty group if there is none. */
static struct kin_group smaller_group(const struct kin_walk *walk, uint64_t volume)
{
    const struct kin_link at = { walk->wanted.family, volume, 0 };
    const struct kin_link *next = same_family(find_neighbours(walk->order, &at, 0).left, at.family);
    return next ? find_group(walk, next->volume) : (struct kin_group){ 0 };
}

static struct kin_group larger_group(const struct kin_walk *walk, uint64_t volume)
{
    const struct kin_link at = { walk->wanted.family, volume, UINT64_MAX };
    const struct kin_link *next =
        same_family(find_neighbours(walk->order, &at, UINTPTR_MAX).right, at.family);
    return next ? find_group(walk, next->volume) : (struct kin_group){ 0 };
}

void kin_walk_begin(struct kin_walk *walk, const struct kin_order *order,
                    const struct kin_link *wanted)
{
    *walk = (struct kin_walk){ .order = order, .wanted = *wanted };
    walk->small = find_group(walk, wanted->volume);
    if (is_empty(&walk->small))
        walk->small = smaller_group(walk, wanted->volume);
    walk->large = larger_group(walk, wanted->volume);
}

static double size_ratio(uint64_t a, uint64_t b)
{
    return a > b ? (double)a / (double)b : (double)b / (double)a;
}

/* Returns the nearer link, or |a| if both are equally near. |a| or |b| may be NULL. */
static const struct kin_link *nearer(const struct kin_walk *walk, const struct kin_link *a,
                                     const struct kin_link *b)
{
    if (!a || !b)
        return a ? a : b;
    double volume_a = size_ratio(a->volume, walk->wanted.volume);
    double volume_b = size_ratio(b->volume, walk->wanted.volume);
    if (volume_a != volume_b)
        return volume_a < volume_b ? a : b;
    double batch_a = size_ratio(a->batch, walk->wanted.batch);
    double batch_b = size_ratio(b->batch, walk->wanted.batch);
    return batch_b < batch_a ? b : a;
}

static void leave_link(struct kin_walk *walk, struct kin_group *group, const struct kin_link *link)
{
    if (link == group->below)
        group->below = link_before(walk->order, link);
    else
        group->above = link_behind(walk->order, link);
}

const struct kin_link *kin_walk_next(struct kin_walk *walk)
{
    struct kin_group *small = &walk->small, *large = &walk->large;
    const struct kin_link *of_small = nearer(walk, small->below, small->above);
    const struct kin_link *of_large = nearer(walk, large->below, large->above);
    const struct kin_link *next = nearer(walk, of_small, of_large);
    if (!next)
        return NULL;
    leave_link(walk, next == of_small ? small : large, next);
    if (next == of_small && is_empty(small))
        *small = smaller_group(walk, next->volume);
    else if (next == of_large && is_empty(large))
        *large = larger_group(walk, next->volume);
    return next;
}
