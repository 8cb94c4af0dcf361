/* SPDX-License-Identifier: MIT */
#include "engine/service/budget.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/fleet/fleet_upload.h"
#include "engine/service/metrics/exposition.h"
#include "engine/service/requests/admin.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/store/held_objects.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (1u << 20)

#define METRIC_NAME_none METRIC_NAMES

enum metric_name {
#define METRIC(name, type, labels, help) METRIC_NAME_##name,
#include "engine/service/metrics/metrics.def"
    METRIC_NAMES
};

static const struct metric metrics[METRIC_NAMES] = {
#define METRIC(name, type, labels, help) { "kiln_" #name, METRIC_##type, labels, help },
#include "engine/service/metrics/metrics.def"
};

#define LEVEL(name, metric, values, expression, purpose) \
    static uint64_t level_##name(const struct engine *e) { return expression; }
#include "engine/service/metrics/metrics.def"

/* The value comes from |level| or |hosted| if one of them is set, and otherwise from |offset|. */
struct sample {
    enum metric_name metric;
    const char *values;
    uint64_t (*level)(const struct engine *e);
    const char *hosted;
    size_t offset;
};

static const struct sample samples[] = {
#define STAT(name, metric, values, purpose) \
    { METRIC_NAME_##metric, values, .offset = offsetof(struct stats, name) },
#define HOSTED(name, metric, values, purpose) { METRIC_NAME_##metric, values, .hosted = #name },
#define LEVEL(name, metric, values, expression, purpose) \
    { METRIC_NAME_##metric, values, .level = level_##name },
#include "engine/service/metrics/metrics.def"
};

struct page {
    struct buffer *out;
    const struct metric *family;
    const struct engine *e;
    const struct json *host_stats, *host_status;
    const struct kernel_usage *usage; /* NULL: the store could not be read */
};

static void put_number(struct page *p, uint64_t number)
{
    exposition_number(p->out, p->family, NULL, number);
}

static void put_labelled(struct page *p, const char *label, uint64_t number)
{
    const char *const values[] = { label, NULL };
    exposition_number(p->out, p->family, values, number);
}

static void put_two_labels(struct page *p, const char *first, const char *second, uint64_t number)
{
    const char *const values[] = { first, second };
    exposition_number(p->out, p->family, values, number);
}

static void put_three_labels(struct page *p, const char *first, const char *second,
                             const char *third, uint64_t number)
{
    const char *const values[EXPOSITION_LABELS_MAX] = { first, second, third };
    exposition_number(p->out, p->family, values, number);
}

static uint64_t read_sample(const struct page *p, const struct sample *s)
{
    if (s->level)
        return s->level(p->e);
    if (s->hosted)
        return json_get_u64(p->host_stats, s->hosted, 0);
    uint64_t number;
    memcpy(&number, (const char *)&p->e->stats + s->offset, sizeof(number));
    return number;
}

static void put_sample(struct page *p, const struct sample *s)
{
    char text[64];
    const char *values[EXPOSITION_LABELS_MAX] = { text };
    snprintf(text, sizeof(text), "%s", s->values);
    char *at = text;
    for (size_t i = 1; i < EXPOSITION_LABELS_MAX && (at = strchr(at, ' ')) != NULL; i++) {
        *at++ = '\0';
        values[i] = at;
    }
    exposition_number(p->out, p->family, text[0] ? values : NULL, read_sample(p, s));
}

static void write_up(struct page *p) { put_number(p, 1); }

static void write_build_info(struct page *p)
{
    char protocol[16];
    snprintf(protocol, sizeof(protocol), "%u", (unsigned)FRAME_VERSION);
    put_three_labels(p, KILN_VERSION, KILN_COMMIT, protocol, 1);
}

static void write_start_time(struct page *p) { put_number(p, p->e->metrics.started); }

static const char *to_lower(const char *name, char text[32])
{
    size_t i = 0;
    for (; i < 31 && name[i]; i++)
        text[i] = (char)tolower((unsigned char)name[i]);
    text[i] = '\0';
    return text;
}

static void write_requests(struct page *p)
{
    const struct engine_metrics *f = &p->e->metrics;
    for (unsigned type = 0; type < METRICS_REQUESTS; type++) {
        const char *op = type ? message_name(type) : "unknown";
        for (unsigned code = 0; op[0] != '?' && code < METRICS_CODES; code++) {
            char result[32];
            uint64_t count = f->requests[type][code];
            bool is_shown = count > 0 || (type > 0 && code == KILN_OK);
            if (is_shown)
                put_two_labels(p, op, to_lower(kiln_code_name((enum kiln_code)code), result),
                               count);
        }
    }
}

static void write_in_flight(struct page *p) { put_number(p, p->e->metrics.in_flight); }

static void write_fetch_results(struct page *p)
{
    uint64_t compiled = p->e->metrics.compiled;
    put_labelled(p, "compiled", compiled);
    put_labelled(p, "failed", p->e->stats.misses - compiled);
}

static void write_lookup_durations(struct page *p)
{
    static const char *const ends[LOOKUP_ENDS] = { "hot",   "disk",    "package",
                                                   "fleet", "compile", "none" };
    static const struct exposition_range range = { .first = 8, .last = 36, .step = 2 };
    for (unsigned i = 0; i < LOOKUP_ENDS; i++)
        exposition_histogram(p->out, p->family, &ends[i], &p->e->metrics.lookups[i], &range);
}

static void write_plan_durations(struct page *p)
{
    static const struct exposition_range range = { .first = 10, .last = 30, .step = 2 };
    exposition_histogram(p->out, p->family, NULL, &p->e->metrics.plan, &range);
}

static void write_compiles(struct page *p)
{
    const struct engine_metrics *f = &p->e->metrics;
    for (unsigned i = 0; i < f->toolchain_count; i++) {
        const struct toolchain_metrics *t = &f->toolchains[i];
        for (unsigned result = 0; result < COMPILE_RESULTS; result++) {
            if (result == COMPILE_DONE || t->results[result] > 0)
                put_two_labels(p, t->name, metrics_compile_result(result), t->results[result]);
        }
    }
}

static void write_compile_durations(struct page *p)
{
    static const struct exposition_range range = { .first = 24, .last = 38, .step = 1 };
    const struct engine_metrics *f = &p->e->metrics;
    for (unsigned i = 0; i < f->toolchain_count; i++) {
        const char *const name[] = { f->toolchains[i].name };
        exposition_histogram(p->out, p->family, name, &f->toolchains[i].duration, &range);
    }
}

static void write_queue_durations(struct page *p)
{
    static const struct exposition_range range = { .first = 20, .last = 40, .step = 2 };
    exposition_histogram(p->out, p->family, NULL, &p->e->metrics.queue, &range);
}

static void write_failures(struct page *p) { put_number(p, failure_memory_count(p->e->failures)); }

static void write_workers(struct page *p)
{
    const struct json *workers = json_get(p->host_status, "workers");
    put_labelled(p, "busy", json_get_u64(workers, "busy", 0));
    put_labelled(p, "idle", json_get_u64(workers, "idle", 0));
    put_labelled(p, "starting", json_get_u64(workers, "starting", 0));
}

static void write_saved(struct page *p)
{
    exposition_micros(p->out, p->family, NULL, p->e->metrics.saved_us);
}

static void write_client_saved(struct page *p)
{
    exposition_micros(p->out, p->family, NULL, p->e->metrics.client_saved_us);
}

static void write_spent(struct page *p)
{
    exposition_micros(p->out, p->family, NULL, p->e->metrics.compile_us);
}

static void write_store_bytes(struct page *p)
{
    if (!p->usage)
        return;
    put_two_labels(p, "disk", "stored", p->usage->stored_bytes);
    put_two_labels(p, "disk", "raw", p->usage->raw_bytes);
    put_two_labels(p, "disk", "taken", p->usage->taken_bytes);
}

static void write_store_objects(struct page *p)
{
    if (!p->usage)
        return;
    put_two_labels(p, "disk", "kernels", p->usage->kernels);
    put_two_labels(p, "disk", "objects", p->usage->objects);
    put_two_labels(p, "disk", "pinned", p->usage->pinned);
    put_two_labels(p, "disk", "quarantined", p->usage->quarantined);
}

static void write_store_limits(struct page *p)
{
    if (p->usage)
        put_labelled(p, "disk", p->usage->limit_bytes);
    put_labelled(p, "hot", hot_set_limit_bytes(p->e->hot));
}

static void write_store_writable(struct page *p)
{
    struct kernel_health health;
    kernel_store_health(p->e->store, &health);
    put_number(p, kernel_store_mode(p->e->store) == KERNEL_STORE_ON &&
                      health.state == KERNEL_HEALTH_OK);
}

static void write_evictions(struct page *p)
{
    const struct stats *s = &p->e->stats;
    put_two_labels(p, "disk", "limit", s->evictions - s->evictions_quota - s->evictions_gc);
    put_two_labels(p, "hot", "limit", hot_set_evictions(p->e->hot));
}

static void write_rejections(struct page *p) { put_number(p, p->e->metrics.rejections); }

static void put_transfers(struct page *p, enum transfer_tier tier, enum transfer_op op)
{
    static const char *const tiers[TRANSFER_TIERS] = { "package", "disk", "tuning" };
    static const char *const ops[TRANSFER_OPS] = { "download", "copy" };
    bool can_come = op == TRANSFER_COPY || tier == TRANSFER_PACKAGE;
    for (unsigned code = 0; code < METRICS_CODES; code++) {
        char result[32];
        uint64_t count = p->e->metrics.transfers[tier][op][code];
        if (count > 0 || (code == KILN_OK && can_come))
            put_three_labels(p, tiers[tier], ops[op],
                             to_lower(kiln_code_name((enum kiln_code)code), result), count);
    }
}

static void write_transfers(struct page *p)
{
    for (unsigned tier = 0; tier < TRANSFER_TIERS; tier++) {
        for (unsigned op = 0; op < TRANSFER_OPS; op++)
            put_transfers(p, (enum transfer_tier)tier, (enum transfer_op)op);
    }
}

static void write_fleet_requests(struct page *p)
{
    for (unsigned i = 0; i < FLEET_ENDS; i++) {
        enum fleet_end end = (enum fleet_end)i;
        put_labelled(p, fleet_end_label(end), fleet_tier_ends(p->e->fleet, end));
    }
}

static void write_fleet_refused(struct page *p)
{
    for (unsigned i = FLEET_FAULT_NONE + 1; i < FLEET_FAULTS; i++) {
        enum fleet_fault fault = (enum fleet_fault)i;
        put_labelled(p, fleet_fault_label(fault), fleet_tier_faults(p->e->fleet, fault));
    }
}

static void write_fleet_uploads(struct page *p)
{
    for (unsigned i = 0; i < FLEET_ENDS; i++) {
        enum fleet_end end = (enum fleet_end)i;
        put_labelled(p, fleet_end_label(end), fleet_upload_ends(p->e->fleet_upload, end));
    }
}

static void write_fleet_leases(struct page *p)
{
    static const char *const names[FLEET_LEASE_ENDS] = { [FLEET_LEASE_TAKEN] = "taken",
                                                         [FLEET_LEASE_SHARED] = "shared",
                                                         [FLEET_LEASE_EXPIRED] = "expired" };
    for (unsigned i = 0; i < FLEET_LEASE_ENDS; i++)
        put_labelled(p, names[i], fleet_tier_lease_count(p->e->fleet, (enum fleet_lease_end)i));
}

static void write_fleet_up(struct page *p) { put_number(p, fleet_tier_is_up(p->e->fleet)); }

static void write_tuning_entries(struct page *p)
{
    struct tuning_stats t = tuning_stats_of(tuning_databases(p->e));
    put_labelled(p, "system", t.system_records);
    put_labelled(p, "host", t.host_records);
    put_labelled(p, "user", t.user_records);
}

static void (*const writers[METRIC_NAMES])(struct page *) = {
    [METRIC_NAME_up] = write_up,
    [METRIC_NAME_build_info] = write_build_info,
    [METRIC_NAME_start_time_seconds] = write_start_time,
    [METRIC_NAME_requests_total] = write_requests,
    [METRIC_NAME_requests_in_flight] = write_in_flight,
    [METRIC_NAME_fetch_results_total] = write_fetch_results,
    [METRIC_NAME_lookup_duration_seconds] = write_lookup_durations,
    [METRIC_NAME_plan_duration_seconds] = write_plan_durations,
    [METRIC_NAME_compiles_total] = write_compiles,
    [METRIC_NAME_compile_duration_seconds] = write_compile_durations,
    [METRIC_NAME_compile_queue_duration_seconds] = write_queue_durations,
    [METRIC_NAME_remembered_failures] = write_failures,
    [METRIC_NAME_workers] = write_workers,
    [METRIC_NAME_saved_compile_seconds_total] = write_saved,
    [METRIC_NAME_client_saved_compile_seconds_total] = write_client_saved,
    [METRIC_NAME_compile_seconds_total] = write_spent,
    [METRIC_NAME_store_bytes] = write_store_bytes,
    [METRIC_NAME_store_objects] = write_store_objects,
    [METRIC_NAME_store_limit_bytes] = write_store_limits,
    [METRIC_NAME_store_writable] = write_store_writable,
    [METRIC_NAME_evictions_total] = write_evictions,
    [METRIC_NAME_quota_rejections_total] = write_rejections,
    [METRIC_NAME_fleet_requests_total] = write_fleet_requests,
    [METRIC_NAME_fleet_refused_total] = write_fleet_refused,
    [METRIC_NAME_fleet_uploads_total] = write_fleet_uploads,
    [METRIC_NAME_fleet_leases_total] = write_fleet_leases,
    [METRIC_NAME_fleet_up] = write_fleet_up,
    [METRIC_NAME_remote_requests_total] = write_transfers,
    [METRIC_NAME_tuning_entries] = write_tuning_entries,
};

static const struct sample *first_sample(enum metric_name name)
{
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        if (samples[i].metric == name)
            return &samples[i];
    return NULL;
}

static bool is_known(const struct page *p, enum metric_name name)
{
    const struct sample *first = first_sample(name);
    if (name == METRIC_NAME_workers)
        return json_get(p->host_status, "workers");
    if (strncmp(metrics[name].name, "kiln_fleet_", 11) == 0)
        return fleet_tier_is_on(p->e->fleet);
    if (name == METRIC_NAME_tuning_entries)
        return tuning_databases(p->e);
    return !first || !first->hosted || json_get(p->host_stats, first->hosted);
}

static void write_metric(struct page *p, enum metric_name name)
{
    p->family = &metrics[name];
    exposition_begin(p->out, p->family);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        if (samples[i].metric == name)
            put_sample(p, &samples[i]);
    if (writers[name])
        writers[name](p);
}

/* Reads the sizes of the store. If this fails, the answer lacks only these sizes, so the request
 * still succeeds. */
static enum kiln_code work_metrics(struct admin *a)
{
    a->base.err.code = kernel_store_usage(a->base.engine->store, a->own, &a->base.err);
    return KILN_OK;
}

static void finish_metrics(struct admin *a)
{
    struct engine *e = a->base.engine;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, TEXT_MAX);
    KILN_AUTO(json) struct json *stats = json_object();
    KILN_AUTO(json) struct json *status = json_object();
    if (e->host) {
        e->host->add_stats(e->host, stats);
        e->host->add_status(e->host, status);
    }
    struct page page = { .out = &text,
                         .e = e,
                         .host_stats = stats,
                         .host_status = status,
                         .usage = a->base.err.code ? NULL : a->own };
    for (enum metric_name name = 0; name < METRIC_NAMES; name++)
        if (is_known(&page, name))
            write_metric(&page, name);
    buffer_put_u8(&text, '\0');
    json_set_text(a->base.answer, "content_type", "text/plain; version=0.0.4; charset=utf-8");
    json_set_text(a->base.answer, "text", text.failed ? NULL : (const char *)text.data);
}

static const struct admin_kind metrics_kind = {
    .work_queue = WORK_QUEUE_READ,
    .is_brief = true,
    .own_size = sizeof(struct kernel_usage),
    .members = admin_no_members,
    .work = work_metrics,
    .finish = finish_metrics,
};

ADMIN_HANDLER(metrics, metrics_kind)
