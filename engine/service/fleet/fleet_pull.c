/* SPDX-License-Identifier: MIT */
/*
 * Copies kernels of the fleet into the store before a job needs them.
 *
 * A pull takes the entries of each index in the order of the packs, in batches. For each batch, a
 * task finds the entries whose kernels the store lacks. Then the records of these entries are
 * requested together, so that kiln-transfer can read neighbouring records with one request. The
 * records are verified and stored like records for look-ups. When all records of the batch have
 * come, the next batch begins.
 */
#include "common/base/clock.h"
#include "common/base/hex.h"
#include "common/target/target.h"
#include "engine/fleet/fleet_index_format.h"
#include "engine/fleet/fleet_series.h"
#include "engine/service/fleet/fleet_parts.h"

#include <string.h>

#define BATCH_MAX 64u
#define BATCH_BYTES (8u << 20)

enum pull_state { PULL_RUNS, PULL_DONE, PULL_FULL, PULL_STOPPED, PULL_FAILED };

struct pull_entry {
    uint64_t place_order; /* pack and offset */
    uint32_t number;      /* number of the entry in the index */
};

struct pulled_kernel {
    struct digest prefix;
    struct fleet_place place;
    bool is_stored;
};

struct fleet_pull {
    struct engine *engine;
    enum pull_state state, end; /* |end| is the state after the last kernels are written */
    uint64_t bytes_max;
    bool is_full;                           /* |bytes_max| is reached */
    struct shard *shards[FLEET_SHARDS_MAX]; /* counted in shard->queries, so they are not removed */
    unsigned shard_count, shard_next;
    struct digest index_sha256; /* names the index that has |entries| */
    struct pull_entry *entries; /* owned */
    uint32_t count, at;
    struct pulled_kernel batch[BATCH_MAX];
    unsigned batch_count, in_flight;
    bool is_busy; /* the task runs, and uses |entries| or |batch| */
    struct task task;
    uint64_t total, present, fetched, failed, bytes;
};

static struct fleet_tier *tier_of(const struct fleet_pull *p) { return p->engine->fleet; }

static void advance(struct fleet_pull *p);

static struct fleet_pull *pull_of_task(struct task *task)
{
    return (struct fleet_pull *)(void *)((char *)task - offsetof(struct fleet_pull, task));
}

static void run_task(struct fleet_pull *p, enum work_queue queue, void (*work)(struct task *),
                     void (*done)(struct task *))
{
    p->task = (struct task){ .work = work, .done = done };
    p->is_busy = true;
    tier_of(p)->running++;
    engine_run(p->engine, p->engine->own_uid, queue, &p->task);
}

static void end_task(struct fleet_pull *p)
{
    engine_task_ended(p->engine);
    tier_of(p)->running--;
    p->is_busy = false;
}

/* ---- one batch ---- */

static void check_batch(struct task *task)
{
    struct fleet_pull *p = pull_of_task(task);
    for (unsigned i = 0; i < p->batch_count; i++) {
        struct pulled_kernel *kernel = &p->batch[i];
        struct digest key;
        struct kernel_keys keys = { .keys = &key, .max = 1 };
        struct kiln_err ignored = KILN_ERR_INIT;
        char hex[2 * FLEET_PREFIX_SIZE + 1];
        hex_write(kernel->prefix.bytes, FLEET_PREFIX_SIZE, hex);
        kernel->is_stored =
            !kernel_store_match(p->engine->store, hex, NULL, &keys, &ignored) && keys.count > 0;
    }
}

static void on_answer(void *context, struct object *object)
{
    struct fleet_pull *p = context;
    p->fetched += object != NULL;
    p->failed += object == NULL;
    if (--p->in_flight == 0)
        advance(p);
}

static void request_kernel(struct fleet_pull *p, struct shard *shard,
                           const struct pulled_kernel *kernel)
{
    const struct fleet_asked asked = {
        .key = kernel->prefix, .uid = p->engine->own_uid, .answered = on_answer, .context = p
    };
    if (p->bytes + kernel->place.size > p->bytes_max) {
        p->is_full = true;
        return;
    }
    p->bytes += kernel->place.size;
    p->in_flight++;
    if (query_pull(shard, &asked, &kernel->place))
        return;
    p->in_flight--;
    p->failed++;
}

static bool is_index_same(const struct fleet_pull *p, const struct shard *shard)
{
    return shard->index && digest_equal(&shard->pointer.sha256, &p->index_sha256);
}

static void on_checked(struct task *task)
{
    struct fleet_pull *p = pull_of_task(task);
    struct shard *shard = p->shards[p->shard_next];
    end_task(p);
    for (unsigned i = 0; i < p->batch_count && p->state == PULL_RUNS && !p->is_full; i++) {
        const struct pulled_kernel *kernel = &p->batch[i];
        p->present += kernel->is_stored;
        if (!kernel->is_stored && is_index_same(p, shard))
            request_kernel(p, shard, kernel);
    }
    advance(p);
}

static void begin_batch(struct fleet_pull *p, const struct shard *shard)
{
    uint64_t bytes = 0;
    p->batch_count = 0;
    while (p->at < p->count && p->batch_count < BATCH_MAX && bytes < BATCH_BYTES) {
        const struct fleet_entry entry =
            fleet_index_entry(shard->index, p->entries[p->at++].number);
        p->batch[p->batch_count++] =
            (struct pulled_kernel){ .prefix = entry.key, .place = entry.place };
        bytes += entry.place.size;
    }
    run_task(p, WORK_QUEUE_READ, check_batch, on_checked);
}

/* ---- one index ---- */

static int by_place(const void *a, const void *b)
{
    const struct pull_entry *x = a, *y = b;
    return (x->place_order > y->place_order) - (x->place_order < y->place_order);
}

static void sort_entries(struct task *task)
{
    struct fleet_pull *p = pull_of_task(task);
    qsort(p->entries, p->count, sizeof(p->entries[0]), by_place);
}

static void on_sorted(struct task *task)
{
    struct fleet_pull *p = pull_of_task(task);
    end_task(p);
    advance(p);
}

static void forget_index(struct fleet_pull *p)
{
    free(p->entries);
    p->entries = NULL;
    p->count = p->at = 0;
}

/* Copies the places, because the index may be replaced while the task sorts them. */
static void begin_index(struct fleet_pull *p, const struct shard *shard)
{
    forget_index(p);
    uint32_t count = fleet_index_count(shard->index);
    p->entries = calloc(count ? count : 1, sizeof(p->entries[0]));
    if (!p->entries) {
        p->state = PULL_FAILED;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct fleet_place place = fleet_index_entry(shard->index, i).place;
        p->entries[i] =
            (struct pull_entry){ .place_order = (uint64_t)place.pack << 32 | place.offset,
                                 .number = i };
    }
    p->count = count;
    p->total += count;
    p->index_sha256 = shard->pointer.sha256;
    run_task(p, WORK_QUEUE_READ, sort_entries, on_sorted);
}

/* Begins the shard's index or the next batch of it, or moves on to the next shard. Returns false if
 * the index must be loaded first. */
static bool advance_shard(struct fleet_pull *p, struct shard *shard)
{
    if (!shard->is_known) {
        if (!shard->is_loading)
            shard_load(shard);
        return false;
    }
    bool is_over = p->entries && p->at == p->count;
    if (!shard->index || (is_over && is_index_same(p, shard))) {
        forget_index(p);
        p->shard_next++;
    } else if (!p->entries || !is_index_same(p, shard)) {
        begin_index(p, shard);
    } else {
        begin_batch(p, shard);
    }
    return true;
}

/* ---- a whole pull ---- */

static void release(struct fleet_pull *p)
{
    for (unsigned i = 0; i < p->shard_count; i++)
        p->shards[i]->queries--;
    p->shard_count = 0;
    forget_index(p);
}

static void do_nothing(struct task *task) { (void)task; }

static void on_flushed(struct task *task)
{
    struct fleet_pull *p = pull_of_task(task);
    end_task(p);
    p->state = p->end;
    advance(p);
}

/* Ends the pull after the kernels that it fetched are written. To wait for the writes, queues an
 * empty task behind them: the write queue runs one user's tasks in order. */
static void end_after_writes(struct fleet_pull *p, enum pull_state end)
{
    p->end = end;
    run_task(p, WORK_QUEUE_WRITE, do_nothing, on_flushed);
}

static void advance(struct fleet_pull *p)
{
    while (!p->is_busy && p->in_flight == 0 && p->state == PULL_RUNS) {
        if (p->engine->draining)
            p->state = PULL_STOPPED;
        else if (tier_of(p)->is_broken)
            p->state = PULL_FAILED;
        else if (p->is_full || p->shard_next == p->shard_count)
            end_after_writes(p, p->is_full ? PULL_FULL : PULL_DONE);
        else if (!advance_shard(p, p->shards[p->shard_next]))
            return; /* fleet_pull_tick goes on */
    }
    if (!p->is_busy && p->in_flight == 0)
        release(p);
}

void fleet_pull_tick(struct engine *e)
{
    if (e->fleet->pull && e->fleet->pull->shard_count > 0)
        advance(e->fleet->pull);
}

void fleet_pull_stop(struct engine *e)
{
    struct fleet_pull *p = e->fleet->pull;
    if (p && p->state == PULL_RUNS)
        p->state = PULL_STOPPED;
}

void fleet_pull_destroy(struct fleet_pull *p)
{
    if (p)
        free(p->entries);
    free(p);
}

/* Also makes the pull wait for the shard's pointer if the index may be old: the index of a target
 * that no job uses is not refreshed. */
static void add_shard(struct fleet_pull *p, struct shard *shard)
{
    for (unsigned i = 0; i < p->shard_count; i++)
        if (p->shards[i] == shard)
            return;
    if (!shard || p->shard_count == FLEET_SHARDS_MAX)
        return;
    if (clock_monotonic_ns() - shard->refreshed_ns >= FLEET_REFRESH_NS)
        shard->is_known = false;
    shard->queries++;
    p->shards[p->shard_count++] = shard;
}

static void add_used_shard(struct fleet_pull *p, struct shard *shard)
{
    const struct fleet_shard what = shard_view(shard);
    if (!fleet_shard_has_series(&what)) /* of kernels */
        add_shard(p, shard);
}

static void add_target(struct fleet_pull *p, const struct target *target)
{
    const struct toolchain_table *table = p->engine->toolchains;
    for (size_t i = 0; i < toolchain_table_count(table); i++) {
        const struct toolchain *tc = toolchain_table_at(table, i);
        const struct fleet_shard what = { bytes_of_text(target->text), bytes_of_text(tc->name),
                                          tc->identity };
        if (tc->family == target->family)
            add_shard(p, shard_of(p->engine, &what));
    }
}

/* Adds a target. If an AMD target does not state xnack, also adds its variants with xnack on and
 * off, because jobs may use both. */
static enum kiln_code add_targets_of(struct fleet_pull *p, const char *text, struct kiln_err *err)
{
    static const char *const modes[] = { "-", "+" };
    struct target target, variant;
    enum kiln_code rc = target_parse(bytes_of_text(text), &target, err);
    if (rc)
        return rc;
    add_target(p, &target);
    for (size_t i = 0; i < 2 && !strstr(target.text, ":xnack"); i++)
        if (target_with_xnack(&target, modes[i], &variant))
            add_target(p, &variant);
    return KILN_OK;
}

static enum kiln_code add_shards(struct fleet_pull *p, const struct fleet_pull_options *options,
                                 struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (options->pulls_used)
        LIST_EACH (&tier_of(p)->shards, struct shard, link, shard)
            add_used_shard(p, shard);
    for (const struct json *j = json_first(options->targets); j && !rc; j = json_next(j))
        rc = add_targets_of(p, json_as_text(j, ""), err);
    return rc;
}

enum kiln_code fleet_pull_start(struct engine *e, const struct fleet_pull_options *options,
                                struct kiln_err *err)
{
    struct fleet_tier *tier = e->fleet;
    if (!tier->is_on)
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "this kilnd uses no fleet: set 'fleet' in kilnd.json to the URL of the tree, "
            "and restart kilnd");
    if (tier->pull && tier->pull->shard_count > 0)
        return kiln_fail(err, KILN_BUSY, "another pull runs already: wait until it ends");
    struct fleet_pull *p = calloc(1, sizeof(*p));
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a pull from the fleet");
    p->engine = e;
    p->bytes_max = options->bytes_max;
    enum kiln_code rc = add_shards(p, options, err);
    if (rc) {
        release(p);
        free(p);
        return rc;
    }
    fleet_pull_destroy(tier->pull);
    tier->pull = p;
    advance(p);
    return KILN_OK;
}

struct json *fleet_pull_describe(const struct fleet_pull *p)
{
    static const char *const states[] = { [PULL_RUNS] = "runs",
                                          [PULL_DONE] = "done",
                                          [PULL_FULL] = "limit",
                                          [PULL_STOPPED] = "stopped",
                                          [PULL_FAILED] = "failed" };
    struct json *json = json_object();
    json_set_text(json, "state", states[p->state]);
    json_set_u64(json, "total", p->total);
    json_set_u64(json, "present", p->present);
    json_set_u64(json, "fetched", p->fetched);
    json_set_u64(json, "failed", p->failed);
    json_set_u64(json, "bytes", p->bytes);
    json_set_u64(json, "bytes_max", p->bytes_max);
    return json;
}
