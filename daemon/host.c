/* SPDX-License-Identifier: MIT */
#include "daemon/host.h"

#include "common/clock.h"
#include "common/log.h"

#include <stdio.h>

static struct host *self_of(struct engine_host *base)
{
    return LOOP_OWNER_OF(struct host, base, base);
}

static struct json *answer_config(struct engine_host *base)
{
    const struct host *host = self_of(base);
    struct json *all = json_object();
    for (int key = 0; key < CONFIG_KEYS; key++) {
        const struct config_entry *waiting = reload_waiting(host->reload, (enum config_key)key);
        struct json *one = config_describe(&host->config->entries[key], (enum config_key)key);
        json_set_text(one, "applies", config_table[key].applies == SETTING_NOW ? "now" : "restart");
        if (waiting)
            json_set(one, "after_restart", config_describe(waiting, (enum config_key)key));
        json_set(all, config_table[key].key, one);
    }
    return all;
}

static struct json *describe_sandbox(const struct pool_confinement *confinement)
{
    const struct sandbox_report *report = &confinement->sandbox;
    struct json *sandbox = json_object();
    json_set_text(sandbox, "policy", confinement->required ? "require" : "warn");
    if (!confinement->known)
        return sandbox;
    struct json *layers = json_object();
    for (enum sandbox_layer l = 0; l < LAYERS; l++)
        json_set_bool(layers, layer_name(l), report_has(report, l));
    json_set(sandbox, "layers", layers);
    json_set_u64(sandbox, "landlock_version", report->landlock);
    if (report->has == LAYERS_ALL)
        return sandbox;
    char missing[LAYERS_TEXT_MOST];
    report_missing(report, missing);
    json_set_text(sandbox, "missing", missing);
    json_set_text(sandbox, "why", report->why);
    json_set_text(sandbox, "to_do", report_advice(report));
    return sandbox;
}

static struct json *describe_pool(const struct pool *pool)
{
    struct pool_counts counts = pool_counts(pool);
    struct pool_confinement confinement = pool_confinement(pool);
    struct json *workers = json_object();
    json_set_u64(workers, "total", counts.total);
    json_set_u64(workers, "busy", counts.busy);
    json_set_u64(workers, "idle", counts.idle);
    json_set_u64(workers, "starting", counts.starting);
    json_set_text(workers, "user", confinement.user.name);
    json_set_u64(workers, "uid", confinement.user.uid);
    if (confinement.known)
        json_set_bool(workers, "landlock", report_has(&confinement.sandbox, LAYER_landlock));
    json_set(workers, "sandbox", describe_sandbox(&confinement));
    return workers;
}

static void add_status(struct engine_host *base, struct json *status)
{
    const struct host *host = self_of(base);
    json_set_text(status, "version", KILN_VERSION);
    json_set_u64(status, "pid", (uint64_t)getpid());
    json_set_u64(status, "uptime_s", (clock_monotonic_ns() - host->started_ns) / 1000000000u);
    json_set_text(status, "socket", host->listener->path);
    json_set_text(status, "cache_dir", config_text(host->config, CONFIG_cache_dir));
    json_set_text(status, "state_dir", config_text(host->config, CONFIG_state_dir));
    if (host->pool)
        json_set(status, "workers", describe_pool(host->pool));
}

static void add_stats(struct engine_host *base, struct json *stats)
{
    const struct host *host = self_of(base);
    if (host->server) {
        struct server_counts counts = server_counts(host->server);
        json_set_u64(stats, "clients", counts.clients);
        json_set_u64(stats, "connections_refused", counts.connections_refused);
        json_set_u64(stats, "protocol_errors", counts.protocol_errors);
        json_set_u64(stats, "slow_peers_closed", counts.slow_peers_closed);
    }
    if (host->pool) {
        struct pool_counts counts = pool_counts(host->pool);
        json_set_u64(stats, "worker_starts", counts.worker_starts);
        json_set_u64(stats, "worker_crashes", counts.worker_crashes);
        json_set_u64(stats, "worker_timeouts", counts.worker_timeouts);
        json_set_u64(stats, "probe_crashes", counts.probe_crashes);
    }
}

static void report(struct engine_host *base, const struct engine_report *r)
{
    (void)base;
    char target[LIMIT_TARGET_TEXT];
    enum log_event event = log_event_named(r->event);
    snprintf(target, sizeof(target), "%.*s", (int)r->target.size, (const char *)r->target.data);
    const struct log_fields fields = { .event = event == LOG_EVENT_notice ? r->event : NULL,
                                       .key = r->key,
                                       .uid = r->uid,
                                       .target = target[0] ? target : NULL,
                                       .duration_us = r->duration_ns / 1000 };
    log_event(event, &fields, "%s: %s", r->event, r->text);
}

static void forgot(struct engine_host *base) { manager_forget_hot(self_of(base)->manager); }

void host_init(struct host *host, const struct config *config, const struct listener *listener,
               const struct reload *reload, struct manager *manager)
{
    *host = (struct host){
        .base = { .config = answer_config,
                  .add_status = add_status,
                  .add_stats = add_stats,
                  .report = report,
                  .forgot = forgot },
        .config = config,
        .reload = reload,
        .listener = listener,
        .manager = manager,
        .started_ns = clock_monotonic_ns(),
    };
}
