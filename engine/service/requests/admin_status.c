/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "common/base/subordinate_uids.h"
#include "engine/service/budget.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/fleet/fleet_upload.h"
#include "engine/service/kernels/built_in.h"
#include "engine/service/packages/uploads.h"
#include "engine/service/requests/admin.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_validation.h"
#include "engine/store/held_objects.h"

#include <string.h>

struct status_facts {
    struct kernel_usage usage;
    bool has_uploads;
    uint64_t uploaded; /* see fleet_upload_mark */
    struct fleet_waiting waiting;
};

static enum kiln_code work_usage(struct admin *a)
{
    return kernel_store_usage(a->base.engine->store, a->own, &a->base.err);
}

static void add_counter(struct json *stats, struct json *hits, const char *name, uint64_t value)
{
    if (strncmp(name, "hits_", 5) == 0)
        json_set_u64(hits, name + 5, value);
    else
        json_set_u64(stats, name, value);
}

static bool is_writable(struct engine *e)
{
    struct kernel_health health;
    kernel_store_health(e->store, &health);
    return health.state == KERNEL_HEALTH_OK;
}

static void finish_stats(struct admin *a)
{
    struct engine *e = a->base.engine;
    const struct kernel_usage *usage = a->own;
    struct json *hits = json_object();
#define STAT(name, metric, values, purpose) add_counter(a->base.answer, hits, #name, e->stats.name);
#define LEVEL(name, metric, values, expression, purpose) \
    json_set_u64(a->base.answer, #name, expression);
#include "engine/service/metrics/metrics.def"
    json_set(a->base.answer, "hits", hits);
    json_set_u64(a->base.answer, "store_bytes", usage->stored_bytes);
    json_set_u64(a->base.answer, "store_objects", usage->objects);
    json_set_u64(a->base.answer, "store_quarantined", usage->quarantined);
    json_set_u64(a->base.answer, "store_taken_bytes", usage->taken_bytes);
    json_set_bool(a->base.answer, "store_writable", is_writable(e));
    if (e->host)
        e->host->add_stats(e->host, a->base.answer);
}

static const struct admin_kind stats_kind = {
    .work_queue = WORK_QUEUE_READ,
    .is_brief = true,
    .own_size = sizeof(struct kernel_usage),
    .members = admin_no_members,
    .work = work_usage,
    .finish = finish_stats,
};

ADMIN_HANDLER(stats, stats_kind)

struct json *toolchain_to_json(const struct toolchain *tc)
{
    static const char *const families[] = { "amdgpu", "nvidia", "opencl" };
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&tc->identity, hex);
    struct json *j = json_object();
    json_set_text(j, "name", tc->name);
    json_set_text(j, "version", tc->version);
    json_set_text(j, "path", tc->path);
    json_set_text(j, "family", families[tc->family]);
    json_set_text(j, "language", toolchain_language(tc->family));
    json_set_text(j, "identity", hex);
    return j;
}

static struct json *describe_store(struct engine *e, const struct kernel_usage *usage)
{
    struct kernel_health health;
    kernel_store_health(e->store, &health);
    struct json *store = json_object();
    json_set_text(store, "mode", kernel_store_mode_name(kernel_store_mode(e->store)));
    json_set_u64(store, "objects", usage->objects);
    json_set_u64(store, "stored_bytes", usage->stored_bytes);
    json_set_u64(store, "raw_bytes", usage->raw_bytes);
    json_set_u64(store, "taken_bytes", usage->taken_bytes);
    json_set_u64(store, "limit_bytes", usage->limit_bytes);
    json_set_u64(store, "kernels", usage->kernels);
    json_set_u64(store, "pinned", usage->pinned);
    json_set_u64(store, "quarantined", usage->quarantined);
    json_set_text(store, "health", kernel_health_name(health.state));
    if (health.text[0])
        json_set_text(store, "trouble", health.text);
    return store;
}

static struct json *describe_hot_set(const struct engine *e)
{
    struct json *hot = json_object();
    json_set_u64(hot, "objects", hot_set_count(e->hot));
    json_set_u64(hot, "bytes", hot_set_bytes(e->hot));
    json_set_u64(hot, "limit_bytes", hot_set_limit_bytes(e->hot));
    json_set_u64(hot, "evictions", hot_set_evictions(e->hot));
    return hot;
}

static struct json *describe_queue(const struct engine *e)
{
    struct json *queue = json_object();
    json_set_u64(queue, "waiting", compile_queue_waiting(e->queue));
    json_set_u64(queue, "running", compile_queue_running(e->queue));
    json_set_u64(queue, "bytes", budget_taken(e->budget));
    json_set_u64(queue, "remembered_failures", failure_memory_count(e->failures));
    return queue;
}

static struct json *describe_fleet(const struct engine *e, const struct fleet_waiting *waiting)
{
    struct json *fleet = fleet_tier_describe(e->fleet);
    if (e->fleet_upload)
        json_set(fleet, "uploads", fleet_upload_describe(e->fleet_upload, waiting));
    return fleet;
}

/* Describes limits that kilnctl checks before it reads a file. */
static struct json *describe_uploads(const struct engine *e)
{
    struct json *uploads = json_object();
    json_set_u64(uploads, "cache_limit_bytes", upload_limit_of_user(e, 0));
    json_set_u64(uploads, "tuning_limit_bytes", upload_limit_of_user(e, TUNING_FILE_MAX));
    return uploads;
}

static void begin_status(struct admin *a)
{
    struct status_facts *facts = a->own;
    facts->has_uploads = a->base.engine->fleet_upload != NULL;
    facts->uploaded = fleet_upload_mark(a->base.engine->fleet_upload);
}

static enum kiln_code work_status(struct admin *a)
{
    struct engine *e = a->base.engine;
    struct status_facts *facts = a->own;
    enum kiln_code rc = kernel_store_usage(e->store, &facts->usage, &a->base.err);
    if (!rc && facts->has_uploads)
        rc = fleet_waiting_count(e->store, facts->uploaded, &facts->waiting, &a->base.err);
    return rc;
}

static void finish_status(struct admin *a)
{
    struct engine *e = a->base.engine;
    const struct status_facts *facts = a->own;
    if (e->host)
        e->host->add_status(e->host, a->base.answer);
    json_set_bool(a->base.answer, "draining", e->draining);
    if (e->notice[0])
        json_set_text(a->base.answer, "notice", e->notice);
    const char *describe_failure = NULL;
    if (!toolchains_described(e, &describe_failure) && describe_failure[0])
        json_set_text(a->base.answer, "toolchains_unknown", describe_failure);
    json_set(a->base.answer, "queue", describe_queue(e));
    json_set(a->base.answer, "hot", describe_hot_set(e));
    json_set(a->base.answer, "store", describe_store(e, &facts->usage));
    json_set(a->base.answer, "tuning", tuning_service_describe(e));
    if (fleet_tier_is_on(e->fleet))
        json_set(a->base.answer, "fleet", describe_fleet(e, &facts->waiting));
    if (e->executor->ops->transfer)
        json_set(a->base.answer, "uploads", describe_uploads(e));
    if (built_in_exists(e))
        json_set(a->base.answer, "built_in_damaged", built_in_describe_damage(e));
    struct json *toolchains = json_array();
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++)
        json_append(toolchains, toolchain_to_json(toolchain_table_at(e->toolchains, i)));
    json_set(a->base.answer, "toolchains", toolchains);
}

static const struct admin_kind status_kind = {
    .work_queue = WORK_QUEUE_READ,
    .is_brief = true,
    .own_size = sizeof(struct status_facts),
    .members = admin_no_members,
    .begin = begin_status,
    .work = work_status,
    .finish = finish_status,
};

ADMIN_HANDLER(status, status_kind)

enum kiln_code handle_config(struct engine *e, struct caller *caller,
                             const struct frame_header *header, struct bytes body,
                             struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, admin_no_members, &question, err);
    if (rc)
        return rc;
    KILN_AUTO(json) struct json *config = e->host ? e->host->config(e->host) : NULL;
    if (!config)
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "the engine in this program does not read kilnd's configuration: ask kilnd");
    admin_send(e, caller, header->request_id, config, 0);
    return KILN_OK;
}

/* Maximum number of one user's connections that get events, because each event is sent to all of
 * them. */
#define SUBSCRIBERS_MAX_UID 64u

static enum kiln_code check_subscribers(const struct engine *e, const struct caller *caller,
                                        struct kiln_err *err)
{
    unsigned count = 0;
    LIST_EACH (&e->subscribers, const struct caller, subscribed, c)
        count += is_one_user(c->uid, caller->uid);
    if (list_holds(&caller->subscribed) || count < SUBSCRIBERS_MAX_UID)
        return KILN_OK;
    return kiln_fail(
        err, KILN_BUSY,
        "user %u gets events on %u connections, the maximum: close one, then try again",
        (unsigned)caller->uid, count);
}

enum kiln_code handle_events(struct engine *e, struct caller *caller,
                             const struct frame_header *header, struct bytes body,
                             struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, admin_no_members, &question, err);
    if (!rc)
        rc = check_subscribers(e, caller, err);
    if (rc)
        return rc;
    if (!list_holds(&caller->subscribed))
        list_prepend(&e->subscribers, &caller->subscribed);
    caller->events_request = header->request_id;
    KILN_AUTO(json) struct json *first = json_object();
    json_set_text(first, "event", "subscribed");
    json_set_u64(first, "time", clock_wall_s());
    admin_send(e, caller, header->request_id, first, FRAME_MORE);
    return KILN_OK;
}
