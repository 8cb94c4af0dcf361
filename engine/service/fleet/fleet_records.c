/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_records.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "common/base/jitter.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/fleet/fleet_statements.h"
#include "engine/service/fleet/fleet_tuning.h"
#include "engine/service/packages/packages.h"
#include "engine/service/tuning/tuning_queue.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/topology/kfd.h"
#include "engine/tuning/tuning_share.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Time after a failure before the records are read again. Each further failure doubles the time, up
 * to about an hour, because each attempt may request 32 MiB of packs. */
#define RETRY_NS FLEET_REFRESH_NS
#define DOUBLINGS_MAX 6u
/* Maximum time between two requests for the pointer of a device that no client has used for
 * FLEET_IDLE_NS. The time is shortened by a random amount. A fleet may have many idle hosts, and
 * new records come only a few times a day. */
#define IDLE_REFRESH_NS 1200000000000u

struct device {
    struct fleet_records *records;
    char database_id[DATABASE_ID_MAX];
    struct shard
        *shard; /* counted in shard->queries, so it is not removed; NULL: too many shards */
    struct digest taken; /* names the index whose records the host has; zeros: none */
    uint64_t taken_keys; /* number of the keys with which they were verified */
    uint64_t retry_ns;
    unsigned failures;        /* since the last success */
    uint64_t began_ns;        /* when a client first named the device */
    uint64_t used_ns;         /* when a client last named it, or its GPU was found */
    uint64_t idle_refresh_ns; /* when the pointer is requested if the device is not in use */
    bool is_busy;
    bool is_own;                /* a GPU of this host */
    bool is_dropping;           /* only removes the entries of keys that are no longer trusted */
    uint64_t problems, entries; /* of the last merge */
    /* Used while records are read. */
    struct fleet_access get;
    struct task task;
    struct fleet_statements statements;
    struct digest index_sha256;
    uint64_t keys_number;
};

struct fleet_records {
    struct engine *engine;
    struct device devices[FLEET_DEVICES_MAX];
    unsigned count;
    bool has_gpus; /* this host's GPUs were looked for */
    struct task task;
    struct gpu *gpus; /* owned; used by the task */
    size_t gpu_count;
};

/* A change of the tuning databases that no client has requested. */
struct fleet_restating {
    struct deferred base;
    struct tuning_change change;
    struct device *device;
};

static struct fleet_tier *tier_of(const struct device *d) { return d->records->engine->fleet; }

/* Creates the struct at the first call. Returns NULL if this kilnd uses no fleet, or if memory ran
 * out. */
static struct fleet_records *records_of(struct engine *e)
{
    struct fleet_tier *tier = e->fleet;
    if (!tier->records && tier->is_on)
        tier->records = calloc(1, sizeof(*tier->records));
    if (tier->records)
        tier->records->engine = e;
    return tier->records;
}

void fleet_records_destroy(struct fleet_records *records)
{
    if (records)
        free(records->gpus);
    free(records);
}

static struct shard *hold_shard(struct engine *e, const char *database_id)
{
    struct fleet_tuning_shard named;
    struct shard *shard =
        fleet_tuning_shard_of(database_id, &named) ? shard_of(e, &named.shard) : NULL;
    if (shard)
        shard->queries++;
    return shard;
}

/* Returns a place for a new device. If there are too many, this is the place of one for which the
 * fleet has nothing: users choose the ids, so they must not keep out the devices of others. A
 * device stays for a minute at least, because each new one costs requests to the store. A GPU of
 * this host keeps its place, and takes that of any other device. */
static struct device *find_place(struct fleet_records *records, bool is_own, uint64_t now_ns)
{
    if (records->count < FLEET_DEVICES_MAX)
        return &records->devices[records->count];
    for (unsigned i = 0; i < records->count; i++) {
        struct device *d = &records->devices[i];
        bool is_idle = !d->shard->index && now_ns - d->began_ns >= FLEET_REFRESH_NS;
        if (!d->is_busy && !d->is_own && (is_own || is_idle))
            return d;
    }
    return NULL;
}

static void want(struct engine *e, const char *database_id, bool is_own)
{
    struct fleet_records *records = records_of(e);
    if (!records || strlen(database_id) >= DATABASE_ID_MAX)
        return;
    const uint64_t now_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < records->count; i++) {
        struct device *d = &records->devices[i];
        if (strcmp(d->database_id, database_id) == 0) {
            d->is_own |= is_own;
            d->used_ns = now_ns;
            return;
        }
    }
    struct device *d = find_place(records, is_own, now_ns);
    struct shard *shard = d ? hold_shard(e, database_id) : NULL;
    if (!shard)
        return;
    if (d == &records->devices[records->count])
        records->count++;
    else
        d->shard->queries--;
    *d = (struct device){
        .records = records, .shard = shard, .began_ns = now_ns, .used_ns = now_ns, .is_own = is_own
    };
    snprintf(d->database_id, sizeof(d->database_id), "%s", database_id);
}

void fleet_records_want(struct engine *e, const char *database_id)
{
    want(e, database_id, /* is_own= */ false);
}

/* ---- this host's GPUs ---- */

static void look_for_gpus(struct task *task)
{
    struct fleet_records *records = LIST_ENTRY(task, struct fleet_records, task);
    struct kiln_err ignored = KILN_ERR_INIT;
    char skipped[256];
    records->gpus = calloc(GPUS_MAX, sizeof(*records->gpus));
    if (records->gpus && kfd_gpus(packages_kfd_directory(records->engine), records->gpus,
                                  &records->gpu_count, skipped, &ignored))
        records->gpu_count = 0;
}

static void gpus_found(struct task *task)
{
    struct fleet_records *records = LIST_ENTRY(task, struct fleet_records, task);
    engine_task_ended(records->engine);
    records->engine->fleet->running--;
    for (size_t i = 0; records->gpus && i < records->gpu_count; i++)
        want(records->engine, records->gpus[i].database_id, /* is_own= */ true);
    free(records->gpus);
    records->gpus = NULL;
}

static void find_gpus(struct fleet_records *records)
{
    records->has_gpus = true;
    records->task = (struct task){ .work = look_for_gpus, .done = gpus_found };
    records->engine->fleet->running++;
    engine_run(records->engine, records->engine->own_uid, WORK_QUEUE_READ, &records->task);
}

/* ---- one device ---- */

static void end_reading(struct device *d, bool failed)
{
    fleet_statements_done(&d->statements);
    d->is_busy = false;
    d->failures = failed ? d->failures + 1 : 0;
    if (!failed)
        return;
    unsigned doublings = d->failures - 1 < DOUBLINGS_MAX ? d->failures - 1 : DOUBLINGS_MAX;
    d->retry_ns = clock_monotonic_ns() + (RETRY_NS << doublings);
}

static void restated(struct tuning_change *change)
{
    struct fleet_restating *r = LIST_ENTRY(change, struct fleet_restating, change);
    struct device *d = r->device;
    struct deferred *base = &r->base;
    tier_of(d)->running--;
    if (base->rc) {
        if (!base->engine->draining)
            fleet_report_error(base->engine, base->err.text);
    } else {
        d->taken = d->index_sha256;
        if (d->is_dropping)
            d->taken = (struct digest){ { 0 } };
        d->taken_keys = d->keys_number;
    }
    end_reading(d, base->rc != KILN_OK);
    deferred_end(base);
}

/* Runs on WORK_QUEUE_TUNING, while |context|, a device, is busy. */
static bool is_trusted_row(const void *context, const struct tuning_row *row)
{
    const struct device *d = context;
    const char *id = row->measured.origin.library + strlen(TUNING_FLEET_ORIGIN);
    char hex[2 * FLEET_KEY_ID_SIZE + 1];
    uint8_t key[FLEET_KEY_ID_SIZE];
    struct fleet_tuning_shard named;
    snprintf(hex, sizeof(hex), "%s", id);
    return fleet_tuning_shard_of(d->database_id, &named) && hex_read(hex, key, sizeof(key)) &&
           fleet_trust_may_claim(d->statements.trusted->keys, key, named.shard.target);
}

static enum kiln_code begin_restating(struct tuning_change *change, struct tuning *tuning,
                                      struct kiln_err *err)
{
    struct fleet_restating *r = LIST_ENTRY(change, struct fleet_restating, change);
    struct device *d = r->device;
    d->problems = d->statements.records.count;
    d->entries = d->statements.entries;
    enum kiln_code rc =
        tuning_job_restate(tuning, d->database_id, &d->statements.records, &change->job, err);
    if (!rc && d->is_dropping)
        tuning_job_restate_keep(change->job, is_trusted_row, d);
    return rc;
}

static const struct tuning_change_kind restate_kind = { .begin = begin_restating,
                                                        .ended = restated };
static const struct deferred_kind deferred_restating = { .size = sizeof(struct fleet_restating) };

static enum kiln_code restate(struct device *d, struct kiln_err *err)
{
    struct engine *e = d->records->engine;
    struct caller self = { .uid = e->own_uid, .role = ROLE_ADMIN };
    struct fleet_restating *r =
        deferred_create(&deferred_restating, e, &self, /* request_id= */ 0, err);
    if (!r)
        return err->code;
    r->base.caller = NULL;
    r->device = d;
    r->change.kind = &restate_kind;
    r->change.request = &r->base;
    r->change.needs_no_caller = true;
    tier_of(d)->running++;
    enum kiln_code rc = tuning_queue_add(&r->change, err);
    if (rc) {
        tier_of(d)->running--;
        deferred_destroy(&r->base);
    }
    return rc;
}

static void report_faults(struct device *d)
{
    struct engine *e = d->records->engine;
    const struct fleet_statements *s = &d->statements;
    for (unsigned i = 0; i < FLEET_FAULTS; i++) {
        if (!s->faults[i])
            continue;
        fleet_note_fault(e, (enum fleet_fault)i, "a block of tuning records");
        tier_of(d)->faults[i] += s->faults[i] - 1;
    }
    if (s->is_cut)
        fleet_report_error(e, "the fleet has more tuning records of a device than this host takes");
}

static void statements_read(struct task *task)
{
    struct device *d = LIST_ENTRY(task, struct device, task);
    struct engine *e = d->records->engine;
    struct kiln_err why = KILN_ERR_INIT;
    engine_task_ended(e);
    tier_of(d)->running--;
    report_faults(d);
    enum kiln_code rc = d->statements.rc;
    if (rc)
        why = d->statements.err;
    else if (e->draining || d->keys_number != tier_of(d)->keys_changes)
        rc = KILN_CANCELLED; /* keys may have been revoked since */
    else
        rc = restate(d, &why);
    if (rc && rc != KILN_CANCELLED)
        fleet_report_error(e, why.text);
    if (rc)
        end_reading(d, rc != KILN_CANCELLED);
}

static void read_statements(struct task *task)
{
    struct device *d = LIST_ENTRY(task, struct device, task);
    fleet_statements_read(&d->statements, d->database_id);
}

static void verify(struct device *d)
{
    struct engine *e = d->records->engine;
    d->task = (struct task){ .work = read_statements, .done = statements_read };
    tier_of(d)->running++;
    engine_run(e, e->own_uid, WORK_QUEUE_READ, &d->task);
}

static void get_next_pack(struct device *d);

static void on_pack(struct fleet_access *get)
{
    struct device *d = LIST_ENTRY(get, struct device, get);
    struct fleet_statements *s = &d->statements;
    if (!fleet_access_ended(d->records->engine, get)) {
        end_reading(d, /* failed= */ true);
        return;
    }
    s->packs[s->pack_count++] = get->fd;
    get_next_pack(d);
}

static void get_next_pack(struct device *d)
{
    const struct fleet_statements *s = &d->statements;
    if (s->pack_count == s->wanted) {
        verify(d);
        return;
    }
    const struct fleet_pack *pack = &s->names[s->pack_count];
    d->get = (struct fleet_access){ .size_max = pack->size, .done = on_pack };
    fleet_name_pack(&pack->sha256, d->get.name);
    fleet_access_start(d->records->engine, &d->get);
}

/* Copies what the task needs of the index, because the shard may replace the index meanwhile. */
static void begin_reading(struct device *d)
{
    struct fleet_tier *tier = tier_of(d);
    d->is_busy = true;
    d->is_dropping = false;
    d->index_sha256 = d->shard->pointer.sha256;
    d->keys_number = tier->keys_changes;
    if (fleet_statements_begin(&d->statements, d->shard->index, tier->trusted))
        get_next_pack(d);
    else
        end_reading(d, /* failed= */ true);
}

/* After the keys have changed, needs neither an index nor packs, which a builder whose key was
 * revoked may have damaged. */
static void begin_dropping(struct device *d)
{
    struct fleet_tier *tier = tier_of(d);
    struct kiln_err why = KILN_ERR_INIT;
    d->is_busy = d->is_dropping = true;
    d->keys_number = tier->keys_changes;
    d->statements = (struct fleet_statements){ .trusted = trusted_ref(tier->trusted) };
    if (!restate(d, &why))
        return;
    fleet_report_error(d->records->engine, why.text);
    end_reading(d, /* failed= */ true);
}

static bool has_news(const struct device *d)
{
    const struct shard *shard = d->shard;
    return shard->index && !digest_equal(&shard->pointer.sha256, &d->taken);
}

/* Returns whether the device must wait after a failure. Another index need not fail, and a revoked
 * key must not wait. */
static bool is_paused(const struct device *d, uint64_t now_ns)
{
    const struct shard *shard = d->shard;
    bool is_same = (!shard->index || digest_equal(&shard->pointer.sha256, &d->index_sha256)) &&
                   d->keys_number == tier_of(d)->keys_changes;
    return d->failures > 0 && is_same && now_ns < d->retry_ns;
}

/* Devices are read one after the other, because each may need much memory. */
static bool is_reading(const struct fleet_records *records)
{
    for (unsigned i = 0; i < records->count; i++)
        if (records->devices[i].is_busy)
            return true;
    return false;
}

/* Keeps the index of a device that is in use up to date, as those of kernels. */
static void refresh_index(struct device *d, uint64_t now_ns)
{
    struct shard *shard = d->shard;
    if (now_ns - d->used_ns < FLEET_IDLE_NS) {
        shard->asked_ns = now_ns;
        d->idle_refresh_ns = now_ns + jitter_shorten(IDLE_REFRESH_NS);
    } else if (now_ns >= d->idle_refresh_ns && !shard->is_loading && !tier_of(d)->is_broken) {
        d->idle_refresh_ns = now_ns + jitter_shorten(IDLE_REFRESH_NS);
        shard_load(shard);
    }
}

static void tick_device(struct device *d, uint64_t now_ns)
{
    refresh_index(d, now_ns);
    if (is_reading(d->records) || is_paused(d, now_ns) || !tuning_databases(d->records->engine))
        return;
    if (d->taken_keys != tier_of(d)->keys_changes)
        begin_dropping(d);
    else if (!tier_of(d)->is_broken && has_news(d))
        begin_reading(d);
}

void fleet_records_tick(struct engine *e, uint64_t now_ns)
{
    struct fleet_records *records = records_of(e);
    if (!records)
        return;
    if (!records->has_gpus)
        find_gpus(records);
    for (unsigned i = 0; i < records->count; i++)
        tick_device(&records->devices[i], now_ns);
}

struct json *fleet_records_describe(const struct fleet_records *records)
{
    struct json *list = json_array();
    for (unsigned i = 0; records && i < records->count; i++) {
        const struct device *d = &records->devices[i];
        struct json *j = json_object();
        json_set_text(j, "database_id", d->database_id);
        json_set_bool(j, "taken", digest_is_known(&d->taken));
        json_set_u64(j, "problems", d->problems);
        json_set_u64(j, "entries", d->entries);
        json_append(list, j);
    }
    return list;
}
