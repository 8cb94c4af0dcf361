/* SPDX-License-Identifier: MIT */
/* The request metrics: every figure, as Prometheus reads it. */
#include "engine/service/budget.h"
#include "engine/service/metrics/exposition.h"
#include "engine/service/requests/admin.h"
#include "engine/service/tuning/tuning_service.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MOST (1u << 20)

enum metric_name {
#define METRIC(name, type, labels, help) METRIC_NAME_##name,
#include "engine/service/metrics/metrics.def"
#undef METRIC
    METRIC_NAMES
};

static const struct metric metrics[METRIC_NAMES] = {
#define METRIC(name, type, labels, help) { "kiln_" #name, METRIC_##type, labels, help },
#include "engine/service/metrics/metrics.def"
#undef METRIC
};

struct page { /* the text that is being written, and what it is made of */
    struct buffer *out;
    const struct metric *family;
    const struct engine *e;
    const struct json *host_stats, *host_status;
    const struct kernel_usage *usage; /* NULL: the store could not be asked */
};

static void begin(struct page *p, enum metric_name name)
{
    p->family = &metrics[name];
    exposition_begin(p->out, p->family);
}

static void put(struct page *p, uint64_t number)
{
    exposition_number(p->out, p->family, NULL, number);
}

static void put_for(struct page *p, const char *label, uint64_t number)
{
    const char *const values[] = { label, NULL };
    exposition_number(p->out, p->family, values, number);
}

static void put_for_two(struct page *p, const char *first, const char *second, uint64_t number)
{
    const char *const values[] = { first, second };
    exposition_number(p->out, p->family, values, number);
}

static void put_for_three(struct page *p, const char *first, const char *second, const char *third,
                          uint64_t number)
{
    const char *const values[EXPOSITION_LABELS_MOST] = { first, second, third };
    exposition_number(p->out, p->family, values, number);
}

/* A family of one sample. */
static void put_one(struct page *p, enum metric_name name, uint64_t number)
{
    begin(p, name);
    put(p, number);
}

/* One that the process around the engine counts; an engine without one has none. */
static void put_hosted(struct page *p, enum metric_name name, const char *member)
{
    if (json_get(p->host_stats, member))
        put_one(p, name, json_get_u64(p->host_stats, member, 0));
}

/* ---- who we are, who is there ---- */

static void write_process(struct page *p)
{
    char protocol[16];
    snprintf(protocol, sizeof(protocol), "%u", (unsigned)FRAME_VERSION);
    put_one(p, METRIC_NAME_up, 1);
    begin(p, METRIC_NAME_build_info);
    put_for_three(p, KILN_VERSION, KILN_COMMIT, protocol, 1);
    put_one(p, METRIC_NAME_start_time_seconds, p->e->figures.started);
    put_hosted(p, METRIC_NAME_clients, "clients");
    put_hosted(p, METRIC_NAME_connections_refused_total, "connections_refused");
    put_hosted(p, METRIC_NAME_protocol_errors_total, "protocol_errors");
    put_hosted(p, METRIC_NAME_slow_peers_closed_total, "slow_peers_closed");
}

/* ---- requests and fetches ---- */

static const char *lower(const char *name, char text[32])
{
    size_t i = 0;
    for (; i < 31 && name[i]; i++)
        text[i] = (char)tolower((unsigned char)name[i]);
    text[i] = '\0';
    return text;
}

static void write_requests(struct page *p)
{
    const struct figures *f = &p->e->figures;
    begin(p, METRIC_NAME_requests_total);
    for (unsigned type = 0; type < FIGURE_REQUESTS; type++) {
        const char *op = type ? message_name(type) : "unknown";
        for (unsigned code = 0; op[0] != '?' && code < FIGURE_CODES; code++) {
            char result[32];
            uint64_t count = f->requests[type][code];
            bool is_shown = count > 0 || (type > 0 && code == KILN_OK);
            if (is_shown)
                put_for_two(p, op, lower(kiln_code_name((enum kiln_code)code), result), count);
        }
    }
    put_one(p, METRIC_NAME_requests_in_flight, f->in_flight);
}

static void write_fetches(struct page *p)
{
    const struct stats *s = &p->e->stats;
    uint64_t compiled = p->e->figures.compiled;
    put_one(p, METRIC_NAME_fetches_total, s->fetches);
    begin(p, METRIC_NAME_fetch_results_total);
    put_for(p, "hot", s->hits_hot);
    put_for(p, "disk", s->hits_disk);
    put_for(p, "package", s->hits_package);
    put_for(p, "remote", s->hits_remote);
    put_for(p, "compiled", compiled);
    put_for(p, "failed", s->misses - compiled);
    put_for(p, "cancelled", s->cancelled);
    begin(p, METRIC_NAME_misses_total);
    put_for(p, "new", s->misses_new);
    put_for(p, "damaged", s->misses_damaged);
    put_for(p, "store", s->misses_store);
    put_for(p, "uncached", s->misses_uncached);
    put_for(p, "remembered", s->misses_remembered);
    put_for(p, "unknown", s->misses_unknown);
    put_for(p, "refused", s->misses_refused);
    put_for(p, "prefetch", s->misses_prefetch);
    put_one(p, METRIC_NAME_prefetch_hits_total, s->prefetch_hits);
    put_one(p, METRIC_NAME_coalesced_requests_total, s->coalesced);
}

static void write_durations(struct page *p)
{
    static const char *const ends[] = { "hot", "disk", "package", "remote", "compile", "none" };
    static const struct exposition_range lookup = { .first = 8, .last = 36, .step = 2 };
    static const struct exposition_range plan = { .first = 10, .last = 30, .step = 2 };
    const struct figures *f = &p->e->figures;
    begin(p, METRIC_NAME_lookup_duration_seconds);
    for (unsigned i = 0; i < LOOKUP_ENDS; i++) {
        bool is_shown = i != LOOKUP_REMOTE || histogram_count(&f->lookups[i]) > 0;
        if (is_shown)
            exposition_histogram(p->out, p->family, &ends[i], &f->lookups[i], &lookup);
    }
    begin(p, METRIC_NAME_plan_duration_seconds);
    exposition_histogram(p->out, p->family, NULL, &f->plan, &plan);
}

/* ---- compilers ---- */

static void write_compiles(struct page *p)
{
    static const struct exposition_range range = { .first = 24, .last = 38, .step = 1 };
    static const struct exposition_range queue = { .first = 20, .last = 40, .step = 2 };
    const struct figures *f = &p->e->figures;
    begin(p, METRIC_NAME_compiles_total);
    for (unsigned i = 0; i < f->toolchain_count; i++) {
        const struct toolchain_figures *t = &f->toolchains[i];
        for (unsigned result = 0; result < COMPILE_RESULTS; result++) {
            if (result == COMPILE_DONE || t->results[result] > 0)
                put_for_two(p, t->name, figures_compile_result(result), t->results[result]);
        }
    }
    begin(p, METRIC_NAME_compile_duration_seconds);
    for (unsigned i = 0; i < f->toolchain_count; i++) {
        const char *const name[] = { f->toolchains[i].name };
        exposition_histogram(p->out, p->family, name, &f->toolchains[i].duration, &range);
    }
    begin(p, METRIC_NAME_compile_queue_duration_seconds);
    exposition_histogram(p->out, p->family, NULL, &f->queue, &queue);
}

static void write_queue(struct page *p)
{
    const struct engine *e = p->e;
    put_one(p, METRIC_NAME_inflight_compiles, compile_queue_running(e->queue));
    put_one(p, METRIC_NAME_queued_compiles, compile_queue_waiting(e->queue));
    put_one(p, METRIC_NAME_queued_bytes, budget_taken(e->budget));
    put_one(p, METRIC_NAME_remembered_failures, failure_memory_count(e->failures));
    put_one(p, METRIC_NAME_probes_total, e->stats.probes);
}

static void write_workers(struct page *p)
{
    const struct json *workers = json_get(p->host_status, "workers");
    if (workers) {
        begin(p, METRIC_NAME_workers);
        put_for(p, "busy", json_get_u64(workers, "busy", 0));
        put_for(p, "idle", json_get_u64(workers, "idle", 0));
        put_for(p, "starting", json_get_u64(workers, "starting", 0));
    }
    if (!json_get(p->host_stats, "worker_crashes"))
        return;
    begin(p, METRIC_NAME_worker_crashes_total);
    put_for(p, "crash", json_get_u64(p->host_stats, "worker_crashes", 0));
    put_for(p, "timeout", json_get_u64(p->host_stats, "worker_timeouts", 0));
    put_for(p, "probe", json_get_u64(p->host_stats, "probe_crashes", 0));
    put_hosted(p, METRIC_NAME_worker_starts_total, "worker_starts");
}

static void write_seconds(struct page *p)
{
    begin(p, METRIC_NAME_saved_compile_seconds_total);
    exposition_micros(p->out, p->family, NULL, p->e->figures.saved_us);
    begin(p, METRIC_NAME_compile_seconds_total);
    exposition_micros(p->out, p->family, NULL, p->e->figures.compile_us);
}

/* ---- stores ---- */

static void write_sizes(struct page *p)
{
    const struct kernel_usage *u = p->usage;
    begin(p, METRIC_NAME_store_bytes);
    if (u) {
        put_for_two(p, "disk", "stored", u->stored_bytes);
        put_for_two(p, "disk", "raw", u->raw_bytes);
        put_for_two(p, "disk", "taken", u->taken_bytes);
    }
    put_for_two(p, "hot", "raw", hot_set_bytes(p->e->hot));
    begin(p, METRIC_NAME_store_objects);
    if (u) {
        put_for_two(p, "disk", "kernels", u->kernels);
        put_for_two(p, "disk", "objects", u->objects);
        put_for_two(p, "disk", "pinned", u->pinned);
        put_for_two(p, "disk", "quarantined", u->quarantined);
    }
    put_for_two(p, "hot", "objects", hot_set_count(p->e->hot));
    begin(p, METRIC_NAME_store_limit_bytes);
    if (u)
        put_for(p, "disk", u->limit_bytes);
    put_for(p, "hot", hot_set_limit_bytes(p->e->hot));
}

static bool is_writable(const struct engine *e)
{
    struct kernel_health health;
    kernel_store_health(e->store, &health);
    return kernel_store_mode(e->store) == KERNEL_STORE_ON && health.state == KERNEL_HEALTH_OK;
}

static void write_store(struct page *p)
{
    const struct stats *s = &p->e->stats;
    write_sizes(p);
    put_one(p, METRIC_NAME_store_writable, is_writable(p->e));
    put_one(p, METRIC_NAME_store_replaced_total, s->store_replaced);
    put_one(p, METRIC_NAME_store_write_errors_total, s->store_errors);
    begin(p, METRIC_NAME_evictions_total);
    put_for_two(p, "disk", "limit", s->evictions - s->evictions_quota - s->evictions_gc);
    put_for_two(p, "disk", "quota", s->evictions_quota);
    put_for_two(p, "disk", "gc", s->evictions_gc);
    put_for_two(p, "hot", "limit", hot_set_evictions(p->e->hot));
    put_one(p, METRIC_NAME_corruptions_total, s->quarantined);
    put_one(p, METRIC_NAME_quota_rejections_total, p->e->figures.rejections);
}

/* What ended well is there from the start, where it can come; failures from the first one on. */
static void put_transfers(struct page *p, enum transfer_tier tier, enum transfer_op op)
{
    static const char *const tiers[TRANSFER_TIERS] = { "package", "disk", "tuning" };
    static const char *const ops[TRANSFER_OPS] = { "download", "copy" };
    bool can_come = op == TRANSFER_COPY || tier == TRANSFER_PACKAGE;
    for (unsigned code = 0; code < FIGURE_CODES; code++) {
        char result[32];
        uint64_t count = p->e->figures.transfers[tier][op][code];
        if (count > 0 || (code == KILN_OK && can_come))
            put_for_three(p, tiers[tier], ops[op],
                          lower(kiln_code_name((enum kiln_code)code), result), count);
    }
}

static void write_transfers(struct page *p)
{
    begin(p, METRIC_NAME_remote_requests_total);
    for (unsigned tier = 0; tier < TRANSFER_TIERS; tier++) {
        for (unsigned op = 0; op < TRANSFER_OPS; op++)
            put_transfers(p, (enum transfer_tier)tier, (enum transfer_op)op);
    }
}

static void write_tuning(struct page *p)
{
    const struct stats *s = &p->e->stats;
    const struct tuning *tuning = tuning_databases(p->e);
    if (tuning) {
        struct tuning_stats t = tuning_stats_of(tuning);
        begin(p, METRIC_NAME_tuning_entries);
        put_for(p, "system", t.system_records);
        put_for(p, "host", t.host_records);
        put_for(p, "user", t.user_records);
    }
    begin(p, METRIC_NAME_tuning_lookups_total);
    put_for(p, "system", s->tuning_hits_system);
    put_for(p, "host", s->tuning_hits_host);
    put_for(p, "user", s->tuning_hits_user);
    put_for(p, "miss", s->tuning_misses);
    put_one(p, METRIC_NAME_tuning_stale_total, s->tuning_stale);
    put_one(p, METRIC_NAME_plans_recorded_total, s->plans_recorded);
    put_one(p, METRIC_NAME_tuning_records_written_total, s->tuning_puts);
}

/* ---- the request ---- */

/* A store that cannot be asked is no reason to have no figures at all: its sizes are left out. */
static enum kiln_code work_metrics(struct admin *a)
{
    a->base.err.code = kernel_store_usage(a->base.engine->store, &a->usage, &a->base.err);
    return KILN_OK;
}

static void finish_metrics(struct admin *a)
{
    struct engine *e = a->base.engine;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, TEXT_MOST);
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
                         .usage = a->base.err.code ? NULL : &a->usage };
    static void (*const parts[])(struct page *) = {
        write_process, write_requests, write_fetches, write_durations, write_compiles, write_queue,
        write_workers, write_seconds,  write_store,   write_transfers, write_tuning,
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        parts[i](&page);
    buffer_put_u8(&text, '\0');
    json_set_text(a->base.answer, "content_type", "text/plain; version=0.0.4; charset=utf-8");
    json_set_text(a->base.answer, "text", text.failed ? NULL : (const char *)text.data);
}

static const struct admin_kind metrics_kind = {
    .lane = LANE_READ,
    .members = admin_no_members,
    .work = work_metrics,
    .finish = finish_metrics,
};

enum kiln_code handle_metrics(struct engine *e, struct caller *caller,
                              const struct frame_header *header, struct bytes body,
                              struct kiln_err *err)
{
    return admin_run(e, caller, header, body, &metrics_kind, err);
}
