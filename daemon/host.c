/* SPDX-License-Identifier: MIT */
#include "daemon/host.h"

#include "common/base/clock.h"
#include "common/log/log.h"
#include "daemon/describe.h"

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

static void add_status(struct engine_host *base, struct json *status)
{
    const struct host *host = self_of(base);
    json_set_text(status, "version", KILN_VERSION);
    json_set_u64(status, "pid", (uint64_t)getpid());
    json_set_u64(status, "uptime_s", (clock_monotonic_ns() - host->started_ns) / 1000000000u);
    json_set_text(status, "socket", host->listener->path);
    json_set_text(status, "cache_dir", config_text(host->config, CONFIG_cache_dir));
    json_set_text(status, "state_dir", config_text(host->config, CONFIG_state_dir));
    if (*reload_refused(host->reload))
        json_set_text(status, "reload_refused", reload_refused(host->reload));
    describe_workers(host->pool, status);
}

static void add_stats(struct engine_host *base, struct json *stats)
{
    const struct host *host = self_of(base);
    describe_counts(host->server, host->pool, stats);
    json_set_u64(stats, "config_last_reload_successful", *reload_refused(host->reload) ? 0 : 1);
}

static void log_report(struct engine_host *base, const struct engine_report *r)
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

void host_init(struct host *host, const struct config *config, const struct listener *listener,
               const struct reload *reload)
{
    *host = (struct host){
        .base = { .config = answer_config,
                  .add_status = add_status,
                  .add_stats = add_stats,
                  .report = log_report },
        .config = config,
        .reload = reload,
        .listener = listener,
        .started_ns = clock_monotonic_ns(),
    };
}
