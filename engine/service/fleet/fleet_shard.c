/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/jitter.h"
#include "engine/digest/sha256.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/kernels/toolchains.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

/* Time without use after which a shard may be removed to make space for another one. */
#define UNUSED_NS 60000000000u

struct fleet_shard shard_view(const struct shard *shard)
{
    return (struct fleet_shard){ bytes_of_text(shard->target), bytes_of_text(shard->toolchain),
                                 shard->toolchain_id };
}

static struct fleet_tier *tier_of(const struct shard *shard) { return shard->engine->fleet; }

void shard_destroy(struct shard *shard)
{
    list_remove(&shard->link);
    tier_of(shard)->shard_count--;
    fleet_index_destroy(shard->index);
    free(shard);
}

static bool is_unused(const struct shard *shard, uint64_t now_ns)
{
    const struct fleet_listing *listing = &shard->listing;
    return !shard->is_loading && !listing->is_requesting && !listing->is_requesting_leases &&
           shard->queries == 0 && now_ns - shard->asked_ns > UNUSED_NS;
}

/* If there are FLEET_SHARDS_MAX shards, removes an unused one. Returns false if all are in use. The
 * number of shards is limited, because each target needs one, and users choose the targets. */
static bool make_space(struct fleet_tier *tier)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (tier->shard_count < FLEET_SHARDS_MAX)
        return true;
    LIST_EACH (&tier->shards, struct shard, link, shard) {
        if (is_unused(shard, now_ns)) {
            shard_destroy(shard);
            return true;
        }
    }
    return false;
}

static struct shard *create_shard(struct engine *e, const struct fleet_shard *what)
{
    if (what->target.size >= LIMIT_TARGET_TEXT || what->toolchain.size >= FLEET_TOOLCHAIN_TEXT ||
        !make_space(e->fleet))
        return NULL;
    struct shard *shard = calloc(1, sizeof(*shard));
    if (!shard)
        return NULL;
    shard->engine = e;
    memcpy(shard->target, what->target.data, what->target.size);
    memcpy(shard->toolchain, what->toolchain.data, what->toolchain.size);
    shard->toolchain_id = what->toolchain_id;
    fleet_shard_id(what, shard->id);
    list_init(&shard->waiting);
    list_append(&e->fleet->shards, &shard->link);
    e->fleet->shard_count++;
    return shard;
}

struct shard *shard_of(struct engine *e, const struct fleet_shard *what)
{
    LIST_EACH (&e->fleet->shards, struct shard, link, shard) {
        const struct fleet_shard view = shard_view(shard);
        if (fleet_shard_equal(&view, what))
            return shard;
    }
    return create_shard(e, what);
}

static bool has_kernels(const struct shard *shard)
{
    return shard->index && fleet_index_count(shard->index) > 0;
}

bool fleet_tier_load(struct engine *e, const struct fleet_shard *what)
{
    const struct fleet_tier *tier = e->fleet;
    struct shard *shard = fleet_tier_is_up(tier) && !e->draining ? shard_of(e, what) : NULL;
    if (shard && !shard->is_known && !shard->is_loading)
        shard_load(shard);
    return shard && has_kernels(shard);
}

/* Does not mark the shard as used. Otherwise its index would be refreshed for ten minutes, although
 * no job needs it. */
enum fleet_presence fleet_tier_look(struct engine *e, const struct fleet_shard *what,
                                    const struct digest *key)
{
    struct fleet_place ignored;
    const struct fleet_tier *tier = e->fleet;
    struct shard *shard = tier->is_on && !e->draining ? shard_of(e, what) : NULL;
    if (!shard)
        return FLEET_LACKS_KERNEL;
    bool is_old = clock_monotonic_ns() - shard->refreshed_ns >= FLEET_REFRESH_NS;
    if (is_old && !shard->is_loading && !tier->is_broken)
        shard_load(shard);
    if (shard->is_loading && !shard->index)
        return FLEET_LOADS_INDEX;
    return shard->index && fleet_index_find(shard->index, key, &ignored) ? FLEET_HAS_KERNEL
                                                                         : FLEET_LACKS_KERNEL;
}

const char *fleet_tier_target_of(const struct fleet_tier *tier, const struct digest *key)
{
    struct fleet_place ignored;
    LIST_EACH (&tier->shards, const struct shard, link, shard)
        if (shard->index && fleet_index_find(shard->index, key, &ignored))
            return shard->target;
    return NULL;
}

static uint64_t prefix_of(const struct digest *key)
{
    uint64_t prefix;
    memcpy(&prefix, key->bytes, sizeof(prefix));
    return be64toh(prefix);
}

bool shard_is_refused(const struct shard *shard, const struct digest *key)
{
    for (unsigned i = 0; i < shard->refused_count; i++)
        if (shard->refused[i] == prefix_of(key))
            return true;
    return false;
}

void shard_refuse(struct shard *shard, const struct digest *key)
{
    if (shard->refused_count < FLEET_REFUSED_MAX)
        shard->refused[shard->refused_count++] = prefix_of(key);
}

void shard_drop_index(struct shard *shard)
{
    fleet_index_destroy(shard->index);
    shard->index = NULL;
    shard->pointer = (struct fleet_pointer){ 0 };
    shard->refused_count = 0;
}

/* Ends a load, with or without an index, and continues the queries that waited for it. */
static void end_load(struct shard *shard, enum fleet_end end, enum fleet_fault fault)
{
    struct fleet_query *query;
    const struct fleet_shard view = shard_view(shard);
    shard->load_end = end;
    shard->load_fault = fault;
    shard->is_loading = shard->is_slow = false;
    shard->refreshed_ns = clock_monotonic_ns();
    shard->refresh_ns = shard->refreshed_ns + jitter_shorten(FLEET_POINTER_NS);
    while ((query = LIST_POP(&shard->waiting, struct fleet_query, link)))
        query_continue(query);
    if (has_kernels(shard))
        toolchains_note_works(shard->engine, &view);
    if (shard->is_known)
        fleet_pull_tick(shard->engine);
}

static void on_slow(struct fleet_access *get)
{
    struct shard *shard = (struct shard *)(void *)((char *)get - offsetof(struct shard, get));
    struct fleet_query *query;
    shard->is_slow = true;
    fleet_note_silence(shard->engine, shard->load_began_ns);
    while ((query = LIST_POP(&shard->waiting, struct fleet_query, link))) {
        query_note_late(query);
        query_give_up(query);
    }
}

static enum fleet_fault open_index(struct fleet_opening *o, struct buffer *content)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum fleet_fault fault = FLEET_FAULT_NONE;
    struct digest digest = sha256_of(buffer_view(content));
    if (!digest_equal(&digest, &o->pointer.sha256))
        return FLEET_FAULT_WRONG_BYTES;
    o->is_final = true;
    o->rc = fleet_index_open(content, o->trusted->keys, &o->index, &fault, &why);
    if (!o->rc && fleet_index_epoch(o->index) != o->pointer.epoch)
        return FLEET_FAULT_OTHER_THING;
    return fault;
}

static void verify_index(struct task *task)
{
    struct fleet_opening *o = (struct fleet_opening *)(void *)task;
    struct kiln_err why = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_INDEX_MAX);
    o->rc = fs_read_fd(o->fd, FLEET_INDEX_MAX, &content, &why);
    o->fault = o->rc ? FLEET_FAULT_MALFORMED : open_index(o, &content);
}

/* Returns why the index that the task opened must not be used, or FLEET_FAULT_NONE. The task itself
 * cannot decide this, because only the engine's thread may use the epochs. */
static enum fleet_fault judge_index(const struct shard *shard)
{
    const struct fleet_opening *o = &shard->opening;
    const struct fleet_tier *tier = tier_of(shard);
    const struct fleet_shard wanted = shard_view(shard);
    if (o->fault || !o->index)
        return o->fault;
    const struct fleet_shard found = fleet_index_shard(o->index);
    if (!fleet_shard_equal(&found, &wanted))
        return FLEET_FAULT_OTHER_THING;
    /* The keys may have changed since the task began. */
    if (!fleet_trust_may_index(tier->trusted->keys, fleet_index_signer(o->index)))
        return FLEET_FAULT_UNTRUSTED;
    return fleet_epochs_check(&tier->epochs, tier->trusted->keys, o->index);
}

static void install_index(struct shard *shard)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    shard_drop_index(shard);
    shard->index = shard->opening.index;
    shard->opening.index = NULL;
    shard->pointer = shard->opening.pointer;
    (void)!fleet_epochs_note(&tier_of(shard)->epochs, shard->index, &ignored);
    fleet_epochs_save(shard->engine);
}

/* Counts the fault. Also remembers the index, so that it is not requested again. Does not remember
 * it if another attempt may succeed, because the file was not the one that the pointer names, or
 * because the keys have changed. */
static void refuse_index(struct shard *shard, enum fleet_fault fault)
{
    fleet_note_fault(shard->engine, fault, "an index");
    if (shard->opening.is_final && shard->opening.trusted == tier_of(shard)->trusted) {
        shard->refused_index = shard->opening.pointer;
        shard->refused_fault = fault;
    }
}

static void on_verified(struct task *task)
{
    struct shard *shard =
        (struct shard *)(void *)((char *)task - offsetof(struct shard, opening.task));
    struct fleet_opening *o = &shard->opening;
    engine_task_ended(shard->engine);
    tier_of(shard)->running--;
    close(o->fd);
    enum fleet_fault fault = judge_index(shard);
    if (fault)
        refuse_index(shard, fault);
    else if (o->index)
        install_index(shard);
    fleet_index_destroy(o->index);
    o->index = NULL;
    trusted_unref(o->trusted);
    shard->is_known = true;
    end_load(shard, FLEET_END_DONE, fault);
}

/* Ends a load that got no new index. The old index, if there is one, is still used. */
static void load_ended_without_index(struct shard *shard, enum fleet_end end)
{
    if (end == FLEET_END_ABSENT || end == FLEET_END_FORBIDDEN || end == FLEET_END_REFUSED ||
        end == FLEET_END_MALFORMED)
        shard->is_known = true;
    end_load(shard, end, FLEET_FAULT_NONE);
}

static void on_index(struct fleet_access *get)
{
    struct shard *shard = (struct shard *)(void *)((char *)get - offsetof(struct shard, get));
    struct fleet_opening *o = &shard->opening;
    if (!fleet_access_ended(shard->engine, get)) {
        load_ended_without_index(shard, get->end);
        return;
    }
    o->fd = get->fd;
    o->is_final = false;
    o->index = NULL;
    o->trusted = trusted_ref(tier_of(shard)->trusted);
    o->task = (struct task){ .work = verify_index, .done = on_verified };
    tier_of(shard)->running++;
    engine_run(shard->engine, shard->engine->own_uid, WORK_QUEUE_READ, &o->task);
}

static void get_index(struct shard *shard)
{
    shard->get = (struct fleet_access){ .size_max = FLEET_INDEX_MAX,
                                        .budget_ms = fleet_wait_left_ms(tier_of(shard),
                                                                        shard->load_began_ns),
                                        .slow = shard->is_slow ? NULL : on_slow,
                                        .done = on_index,
                                        .is_slow = shard->is_slow };
    fleet_name_index(shard->id, &shard->opening.pointer.sha256, shard->get.name);
    fleet_access_start(shard->engine, &shard->get);
}

/* Reads a pointer, and closes |fd|. This does not block, because the file is in memory. */
static bool read_pointer(int fd, struct fleet_pointer *ret_pointer)
{
    char text[FLEET_POINTER_MAX];
    ssize_t got = fs_read_at(fd, text, sizeof(text), 0);
    close(fd);
    return got > 0 && fleet_pointer_read(bytes_of(text, (size_t)got), ret_pointer);
}

static bool is_refused_index(const struct shard *shard, const struct fleet_pointer *pointer)
{
    return pointer->epoch == shard->refused_index.epoch &&
           digest_equal(&pointer->sha256, &shard->refused_index.sha256);
}

static void on_pointer(struct fleet_access *get)
{
    struct shard *shard = (struct shard *)(void *)((char *)get - offsetof(struct shard, get));
    struct fleet_pointer *pointer = &shard->opening.pointer;
    if (!fleet_access_ended(shard->engine, get)) {
        if (get->end == FLEET_END_ABSENT)
            shard_drop_index(shard);
        load_ended_without_index(shard, get->end);
        return;
    }
    if (!read_pointer(get->fd, pointer)) {
        fleet_note_fault(shard->engine, FLEET_FAULT_MALFORMED, "a pointer");
        shard->is_known = true;
        end_load(shard, FLEET_END_DONE, FLEET_FAULT_MALFORMED);
        return;
    }
    bool has_index = shard->index && digest_equal(&pointer->sha256, &shard->pointer.sha256);
    if (has_index || is_refused_index(shard, pointer)) {
        shard->is_known = true;
        end_load(shard, FLEET_END_DONE, has_index ? FLEET_FAULT_NONE : shard->refused_fault);
    } else {
        get_index(shard);
    }
}

void shard_load(struct shard *shard)
{
    shard->is_loading = true;
    shard->load_began_ns = clock_monotonic_ns();
    shard->get = (struct fleet_access){ .size_max = FLEET_POINTER_MAX,
                                        .budget_ms = tier_of(shard)->wait_ms,
                                        .slow = on_slow,
                                        .done = on_pointer };
    fleet_name_pointer(shard->id, shard->get.name);
    fleet_access_start(shard->engine, &shard->get);
}
