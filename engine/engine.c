/* SPDX-License-Identifier: MIT */
#include "engine/engine.h"

#include "engine/service/budget.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/fleet/fleet_upload.h"
#include "engine/service/kernels/built_in.h"
#include "engine/service/kernels/inflight.h"
#include "engine/service/kernels/store_tasks.h"
#include "engine/service/metrics/accounting_tasks.h"
#include "engine/service/metrics/history.h"
#include "engine/service/packages/packages.h"
#include "engine/service/packages/uploads.h"
#include "engine/service/requests/client_compiles.h"
#include "engine/service/requests/exported_files.h"
#include "engine/service/requests/leases.h"
#include "engine/service/requests/valid_counts.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/store/held_objects.h"

#include <errno.h>
#include <sys/random.h>
#include <unistd.h>

/* Limit of the code objects that all users together may hold, in multiples of the limit L of one
 * user (held_limit_bytes_uid). One user may hold at most L, and at most half of what the other
 * users leave of the 4 L. If two users hold L each, 2 L are left, so a third user may still hold
 * L. */
#define HELD_SHARES 4

static struct held_limits held_limits_of(const struct engine_options *o)
{
    return (struct held_limits){ .bytes_uid = o->held_limit_bytes_uid,
                                 .bytes = HELD_SHARES * o->held_limit_bytes_uid };
}

/* Returns whether this host adds its kernels to the fleet's tree. The store must be on, because
 * uploads read the kernels from the store. */
static bool adds_kernels(const struct engine_options *o)
{
    return o->fleet_builder && *o->fleet_builder && o->store_mode == KERNEL_STORE_ON;
}

static enum kiln_code open_fleet(struct engine *e, const struct engine_options *o,
                                 struct kiln_err *err)
{
    const struct fleet_tier_options options = { .is_on = o->has_fleet,
                                                .wait_ms = o->fleet_wait_ms,
                                                .adds_kernels = adds_kernels(o),
                                                .lease_compile_min_ns = o->fleet_lease_ns,
                                                .keys = o->fleet_keys,
                                                .state_directory = o->state_directory };
    const struct fleet_upload_options upload = { .secret_key =
                                                     o->has_fleet ? o->fleet_builder : NULL,
                                                 .tree = o->fleet_tree,
                                                 .state_directory = o->state_directory };
    enum kiln_code rc = fleet_tier_create(&options, &e->fleet, err);
    return rc ? rc : fleet_upload_create(e, &upload, &e->fleet_upload, err);
}

static enum kiln_code open_parts(struct engine *e, const struct engine_options *o,
                                 struct kiln_err *err)
{
    struct kernel_store_options store = {
        .directory = o->cache_directory ? o->cache_directory : "",
        .limit_bytes = o->store_limit_bytes,
        .quota_bytes_uid = o->store_limit_bytes_uid,
        .mode = o->store_mode,
        .readers = o->readers,
    };
    struct hot_set_options hot = { .limit_bytes = o->hot_limit_bytes,
                                   .limit_count = o->hot_limit_count };
    struct held_limits held = held_limits_of(o);
    struct compile_queue_options queue = { .executor = o->executor,
                                           .limit = o->queue_limit,
                                           .limit_uid = o->queue_limit_uid };
    enum kiln_code rc = kernel_store_open(&store, &e->store, e->notice, err);
    if (!rc)
        rc = store_upkeep_create(o->queue_bytes, o->queue_bytes_uid, &e->upkeep, err);
    if (!rc)
        rc = inflights_create(&e->inflights, err);
    if (!rc)
        rc = hot_set_create(&hot, &e->hot, err);
    if (!rc)
        rc = held_objects_create(&held, &e->held, err);
    if (!rc)
        rc = toolchain_table_create(&e->toolchains, err);
    if (!rc)
        rc = toolchains_create(&e->probes, err);
    if (!rc)
        rc = compile_queue_create(&queue, &e->queue, err);
    if (!rc)
        rc = failure_memory_create(o->failure_ttl_s, &e->failures, err);
    if (!rc)
        rc = budget_create(o->queue_bytes, o->queue_bytes_uid, &e->budget, err);
    if (!rc)
        rc = metrics_open(&e->metrics, err);
    if (!rc)
        rc = exported_files_create(&e->exported, err);
    if (!rc)
        rc = requests_create(&e->requests, err);
    if (!rc)
        rc = client_compiles_create(&e->client_compiles, err);
    if (!rc)
        rc = valid_counts_create(&e->valid_counts, err);
    if (!rc)
        rc = history_create(&e->history, err);
    if (!rc)
        rc = built_in_create(o->data, &e->built_in, err);
    if (!rc)
        rc = open_fleet(e, o, err);
    if (!rc)
        rc = tuning_service_create(o, &e->tuning, err);
    return rc ? rc : packages_open(e, o, err);
}

enum kiln_code engine_open(const struct engine_options *options, struct engine **ret_engine,
                           struct kiln_err *err)
{
    struct engine *e = calloc(1, sizeof(*e));
    if (!e)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the engine");
    list_init(&e->subscribers);
    e->own_uid = getuid();
    e->executor = options->executor;
    e->host = options->host;
    buffer_init(&e->records, LIMIT_FRAME_BODY);
    buffer_init(&e->body, LIMIT_FRAME_BODY);
    enum kiln_code rc = open_parts(e, options, err);
    if (!rc && getrandom(&e->instance, sizeof(e->instance), 0) != (ssize_t)sizeof(e->instance))
        rc = kiln_fail_errno(err, errno, "cannot get random bytes");
    if (rc) {
        engine_close(e);
        return rc;
    }
    *ret_engine = e;
    return KILN_OK;
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    requests_destroy(e->requests);
    client_compiles_destroy(e->client_compiles);
    valid_counts_destroy(e->valid_counts);
    history_destroy(e->history);
    built_in_destroy(e->built_in);
    fleet_upload_destroy(e->fleet_upload);
    fleet_tier_destroy(e->fleet);
    metrics_close(&e->metrics);
    budget_destroy(e->budget);
    failure_memory_destroy(e->failures);
    inflights_destroy(e->inflights);
    compile_queue_destroy(e->queue);
    toolchains_destroy(e->probes);
    toolchain_table_destroy(e->toolchains);
    hot_set_destroy(e->hot);
    held_objects_destroy(e->held);
    exported_files_destroy(e->exported);
    store_upkeep_destroy(e->upkeep);
    kernel_store_destroy(e->store);
    packages_close(e);
    tuning_service_destroy(e->tuning);
    buffer_done(&e->records);
    buffer_done(&e->body);
    free(e);
}

void engine_start(struct engine *e)
{
    if (e->notice[0])
        event_store(e, kernel_store_opening_notice(e->store), e->notice);
    tuning_service_start(e);
    built_in_report(e);
    accounting_load(e);
    toolchains_describe(e);
    packages_start(e);
    fleet_tier_tick(e);
}

void engine_drain(struct engine *e)
{
    e->draining = true;
    compile_queue_drain(e->queue);
    uploads_cancel(e);
    leases_drain(e);
    fleet_tier_drain(e);
    client_compiles_drain(e);
    tuning_service_drain(e);
    recency_write(e, /* force= */ true);
    accounting_write(e, /* force= */ true);
    history_write(e, /* force= */ true);
}

bool engine_idle(const struct engine *e)
{
    return e->tasks_out == 0 && inflights_count(e->inflights) == 0 && toolchains_settled(e) &&
           e->callers == 0 && uploads_idle(e) && compile_queue_running(e->queue) == 0 &&
           fleet_tier_is_idle(e->fleet);
}

void engine_set_limits(struct engine *e, const struct engine_options *o)
{
    const struct hot_set_options hot = { .limit_bytes = o->hot_limit_bytes,
                                         .limit_count = o->hot_limit_count };
    hot_set_set_limits(e->hot, &hot);
    const struct held_limits held = held_limits_of(o);
    held_objects_set_limits(e->held, &held);
    kernel_store_set_limits(e->store, o->store_limit_bytes, o->store_limit_bytes_uid);
    compile_queue_set_limits(e->queue, o->queue_limit, o->queue_limit_uid);
    failure_memory_set_ttl(e->failures, o->failure_ttl_s);
    budget_set_limits(e->budget, o->queue_bytes, o->queue_bytes_uid);
    store_upkeep_set_limits(e->upkeep, o->queue_bytes, o->queue_bytes_uid);
    tuning_service_set_limits(e, o);
    packages_set_limits(e, o);
}

struct engine_pulse engine_pulse(const struct engine *e)
{
    const struct stats *s = &e->stats;
    uint64_t found = s->hits_hot + s->hits_disk + s->hits_package + s->hits_fleet;
    return (struct engine_pulse){ .asked = s->fetches,
                                  .found = found,
                                  .compiling = compile_queue_running(e->queue),
                                  .waiting = compile_queue_waiting(e->queue) };
}

struct engine_waiting engine_waiting(const struct engine *e)
{
    return (struct engine_waiting){ .now = budget_taken(e->budget),
                                    .peak = budget_take_peak(e->budget) };
}

void engine_share_compilers(struct engine *e) { compile_queue_tick(e->queue); }

void engine_tick(struct engine *e)
{
    engine_share_compilers(e);
    recency_write(e, /* force= */ false);
    accounting_write(e, /* force= */ false);
    history_write(e, /* force= */ false);
    packages_tick(e);
    fleet_tier_tick(e);
    fleet_upload_tick(e->fleet_upload);
    built_in_tick(e);
    store_tidy(e);
    exported_files_tick(e);
    held_objects_sweep(e->held);
    tuning_service_tick(e);
    leases_tick(e);
    client_compiles_tick(e);
}
