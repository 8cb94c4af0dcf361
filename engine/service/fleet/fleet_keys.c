/* SPDX-License-Identifier: MIT */
/* The keys that this host trusts. kilnd reads their directory again once a minute, and when
 * 'kilnctl fleet revoke' requests this. */
#include "common/base/clock.h"
#include "engine/service/fleet/fleet_parts.h"

struct trusted *trusted_ref(struct trusted *trusted)
{
    trusted->references++;
    return trusted;
}

void trusted_unref(struct trusted *trusted)
{
    if (!trusted || --trusted->references > 0)
        return;
    fleet_trust_destroy(trusted->keys);
    free(trusted);
}

enum kiln_code fleet_keys_read(const struct fleet_tier *tier, struct trusted **ret_trusted,
                               struct kiln_err *err)
{
    struct trusted *trusted = calloc(1, sizeof(*trusted));
    if (!trusted)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys of the fleet");
    enum kiln_code rc = fleet_trust_read(tier->keys, &trusted->keys, err);
    if (rc) {
        free(trusted);
        return rc;
    }
    *ret_trusted = trusted_ref(trusted);
    return KILN_OK;
}

uint64_t fleet_keys_begin(struct engine *e)
{
    e->fleet->keys_read_ns = clock_monotonic_ns();
    return ++e->fleet->keys_begun;
}

/* Drops the indices whose signers' keys were removed, and returns their number. Also forgets which
 * indices were refused. So they are requested again: their signers may be trusted now. */
static unsigned use_keys(struct fleet_tier *tier)
{
    unsigned dropped = 0;
    LIST_EACH (&tier->shards, struct shard, link, shard) {
        shard->refused_index = (struct fleet_pointer){ 0 };
        if (!shard->index ||
            fleet_trust_may_index(tier->trusted->keys, fleet_index_signer(shard->index)))
            continue;
        shard_drop_index(shard);
        shard->refresh_ns = 0; /* the tree may have an index of another signer by now */
        dropped++;
    }
    return dropped;
}

unsigned fleet_keys_install(struct engine *e, struct trusted *trusted, uint64_t number)
{
    struct fleet_tier *tier = e->fleet;
    if (number < tier->keys_installed) {
        trusted_unref(trusted);
        return 0;
    }
    bool is_new = !fleet_trust_equal(trusted->keys, tier->trusted->keys);
    tier->keys_installed = number;
    tier->keys_changes += is_new;
    trusted_unref(tier->trusted);
    tier->trusted = trusted;
    return is_new ? use_keys(tier) : 0;
}

struct keys_task {
    struct task task;
    struct engine *engine;
    uint64_t number;
    struct trusted *trusted;
    enum kiln_code rc;
    struct kiln_err err;
};

static void read_again(struct task *task)
{
    struct keys_task *t = (struct keys_task *)(void *)task;
    t->rc = fleet_keys_read(t->engine->fleet, &t->trusted, &t->err);
}

/* Installs the keys that the task has read. Keeps the old keys if the new ones could not be read,
 * for example because memory ran out. */
static void on_keys(struct task *task)
{
    struct keys_task *t = (struct keys_task *)(void *)task;
    engine_task_ended(t->engine);
    t->engine->fleet->running--;
    if (!t->rc)
        (void)fleet_keys_install(t->engine, t->trusted, t->number);
    free(t);
}

void fleet_keys_tick(struct engine *e, uint64_t now_ns)
{
    struct fleet_tier *tier = e->fleet;
    if (now_ns - tier->keys_read_ns < FLEET_REFRESH_NS)
        return;
    uint64_t number = fleet_keys_begin(e);
    struct keys_task *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    t->task = (struct task){ .work = read_again, .done = on_keys };
    t->engine = e;
    t->number = number;
    tier->running++;
    engine_run(e, e->own_uid, WORK_QUEUE_READ, &t->task);
}
