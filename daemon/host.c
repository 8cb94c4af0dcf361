/* SPDX-License-Identifier: MIT */
#include "daemon/host.h"

#include "common/clock.h"
#include "common/log.h"

/* Log lines of the engine: a burst, then one every few seconds; the rest is counted and said. */
#define REPORTS_BURST 20
#define REPORT_EVERY_NS 3000000000u

static struct host *self_of(struct engine_host *base)
{
    return LOOP_OWNER_OF(struct host, base, base);
}

static struct json *answer_config(struct engine_host *base)
{
    return config_to_json(self_of(base)->config);
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
        json_set_bool(workers, "landlock", confinement.landlock);
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

/* A full disk fails every write: the log must not fill it further. */
static bool may_report(struct host *host)
{
    uint64_t now = clock_monotonic_ns();
    uint64_t earned = (now - host->reported_ns) / REPORT_EVERY_NS;
    if (earned > 0) {
        host->reports_left += earned < REPORTS_BURST ? (unsigned)earned : REPORTS_BURST;
        host->reports_left =
            host->reports_left < REPORTS_BURST ? host->reports_left : REPORTS_BURST;
        host->reported_ns = now;
    }
    if (host->reports_left == 0) {
        host->reports_withheld++;
        return false;
    }
    host->reports_left--;
    return true;
}

static void report(struct engine_host *base, const char *event, const char *text, bool trouble)
{
    struct host *host = self_of(base);
    if (!may_report(host))
        return;
    if (host->reports_withheld > 0)
        log_warning("%u messages like the following were withheld", host->reports_withheld);
    host->reports_withheld = 0;
    if (trouble)
        log_warning("%s: %s", event, text);
    else
        log_info("%s: %s", event, text);
}

void host_init(struct host *host, const struct config *config, const struct listener *listener)
{
    *host = (struct host){
        .base = { .config = answer_config,
                  .add_status = add_status,
                  .add_stats = add_stats,
                  .report = report },
        .reports_left = REPORTS_BURST,
        .reported_ns = clock_monotonic_ns(),
        .config = config,
        .listener = listener,
        .started_ns = clock_monotonic_ns(),
    };
}
