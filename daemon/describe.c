/* SPDX-License-Identifier: MIT */
#include "daemon/describe.h"

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
    char missing[LAYERS_TEXT_MAX];
    report_missing(report, missing);
    json_set_text(sandbox, "missing", missing);
    json_set_text(sandbox, "why", report->why);
    json_set_text(sandbox, "to_do", report_advice(report));
    return sandbox;
}

void describe_workers(const struct pool *pool, struct json *status)
{
    if (!pool)
        return;
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
    json_set(status, "workers", workers);
}

void describe_counts(const struct server *server, const struct pool *pool, struct json *stats)
{
    if (server) {
        struct server_counts counts = server_counts(server);
        json_set_u64(stats, "clients", counts.clients);
        json_set_u64(stats, "connections_refused", counts.connections_refused);
        json_set_u64(stats, "protocol_errors", counts.protocol_errors);
        json_set_u64(stats, "slow_peers_closed", counts.slow_peers_closed);
    }
    if (pool) {
        struct pool_counts counts = pool_counts(pool);
        json_set_u64(stats, "worker_starts", counts.worker_starts);
        json_set_u64(stats, "worker_crashes", counts.worker_crashes);
        json_set_u64(stats, "worker_timeouts", counts.worker_timeouts);
        json_set_u64(stats, "probe_crashes", counts.probe_crashes);
    }
}
