/* SPDX-License-Identifier: MIT */
/* The request fleet_keys reads the keys of the fleet at once, so that a revoked key is no longer
 * trusted when the answer comes. */
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/requests/admin.h"

struct reading {
    uint64_t number;
    struct trusted *keys; /* owned reference; NULL: not read yet */
};

static void begin_keys(struct admin *a)
{
    struct reading *reading = a->own;
    reading->number = fleet_keys_begin(a->base.engine);
}

static enum kiln_code work_keys(struct admin *a)
{
    struct reading *reading = a->own;
    const struct fleet_tier *tier = a->base.engine->fleet;
    if (!fleet_tier_is_on(tier))
        return kiln_fail(
            &a->base.err, KILN_UNSUPPORTED,
            "this kilnd uses no fleet: set 'fleet' in kilnd.json to the URL of the tree, "
            "and restart kilnd");
    return fleet_keys_read(tier, &reading->keys, &a->base.err);
}

static void finish_keys(struct admin *a)
{
    struct engine *e = a->base.engine;
    struct reading *reading = a->own;
    struct trusted *keys = reading->keys;
    reading->keys = NULL;
    unsigned dropped = fleet_keys_install(e, keys, reading->number);
    json_set(a->base.answer, "keys", fleet_keys_describe(e->fleet));
    json_set_u64(a->base.answer, "dropped", dropped);
}

static void release_keys(void *own)
{
    struct reading *reading = own;
    trusted_unref(reading->keys);
}

static const struct admin_kind keys_kind = {
    .work_queue = WORK_QUEUE_READ,
    .own_size = sizeof(struct reading),
    .members = admin_no_members,
    .begin = begin_keys,
    .work = work_keys,
    .finish = finish_keys,
    .release = release_keys,
};

ADMIN_HANDLER(fleet_keys, keys_kind)
