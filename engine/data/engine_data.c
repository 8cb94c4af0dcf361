/* SPDX-License-Identifier: MIT */
#include "engine/data/engine_data.h"

#define STEP_BYTES (256u << 10)

struct bytes engine_item_view(const struct engine_item *item)
{
    return bytes_of(item->bytes, *item->size);
}

bool engine_item_use(struct engine_item *item)
{
    int unused = ITEM_UNUSED;
    if (atomic_load_explicit(&item->state, memory_order_relaxed) == ITEM_UNUSED)
        atomic_compare_exchange_strong(&item->state, &unused, ITEM_USED);
    return !engine_item_is_damaged(item);
}

bool engine_item_is_damaged(const struct engine_item *item)
{
    return atomic_load_explicit(&item->state, memory_order_relaxed) == ITEM_DAMAGED;
}

static struct engine_item_check check_of(struct engine_item *item)
{
    struct engine_item_check check = { .item = item };
    sha256_init(&check.sum);
    return check;
}

bool engine_item_check_begin(const struct engine_data *data, struct engine_item_check *ret_check)
{
    for (size_t i = 0; data && i < data->count; i++) {
        if (atomic_load(&data->items[i].state) != ITEM_USED)
            continue;
        *ret_check = check_of(&data->items[i]);
        return true;
    }
    return false;
}

bool engine_item_check_step(struct engine_item_check *check)
{
    struct bytes all = engine_item_view(check->item);
    size_t left = all.size - check->at;
    size_t step = left < STEP_BYTES ? left : STEP_BYTES;
    sha256_put(&check->sum, bytes_of(all.data + check->at, step));
    check->at += step;
    if (check->at < all.size)
        return false;
    struct digest found = sha256_end(&check->sum);
    atomic_store(&check->item->state,
                 digest_equal(&found, &check->item->digest) ? ITEM_CHECKED : ITEM_DAMAGED);
    return true;
}

bool engine_item_is_as_built(struct engine_item *item)
{
    struct engine_item_check check = check_of(item);
    while (!engine_item_check_step(&check)) {
    }
    return !engine_item_is_damaged(item);
}
