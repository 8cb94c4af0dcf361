/* SPDX-License-Identifier: MIT */
#include "daemon/manager/manager.h"

#include "common/log/log.h"
#include "daemon/manager/notify.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define STATUS_EVERY_MS 5000
#define STOP_MARGIN_MS 15000u

static void describe_status(const struct manager *m, char status[160])
{
    struct engine_pulse pulse = engine_pulse(m->engine);
    unsigned clients = m->server ? server_counts(m->server).clients : 0;
    double rate = pulse.asked ? 100.0 * (double)pulse.found / (double)pulse.asked : 0;
    int used = snprintf(status, 160, "%.80s%s%llu kernels requested", m->note, *m->note ? "; " : "",
                        (unsigned long long)pulse.asked);
    if (pulse.asked)
        used += snprintf(status + used, 160 - (size_t)used, ", %.1f%% found", rate);
    snprintf(status + used, 160 - (size_t)used, "; %u clients; %u compiling, %u waiting", clients,
             pulse.compiling, pulse.waiting);
}

static void report_status(struct manager *m, const char *before)
{
    char message[320], status[160];
    describe_status(m, status);
    m->reported_ms = loop_now_ms(m->loop);
    if (!*before && strcmp(status, m->status) == 0)
        return;
    snprintf(message, sizeof(message), "%sSTATUS=%s", before, status);
    memcpy(m->status, status, sizeof(status));
    notify_manager(message, NULL, *before ? NOTIFY_MUST_ARRIVE : NOTIFY_MAY_BE_LOST);
}

/* Sends WATCHDOG=1 unless a thread hangs, for example in a filesystem.  Without this message, the
 * service manager restarts kilnd, and clients send their unanswered requests again. */
static void on_watchdog(struct loop_timer *timer)
{
    struct manager *m = LOOP_OWNER_OF(struct manager, watchdog, timer);
    uint64_t longest_s = work_queues_longest_ns(m->work_queues) / 1000000000;
    bool is_stuck = longest_s >= MANAGER_STUCK_S;
    if (is_stuck && !m->is_stuck)
        log_event(LOG_EVENT_work_stuck, NULL,
                  "a thread has worked on one task for %llu s: no more watchdog signals",
                  (unsigned long long)longest_s);
    m->is_stuck = is_stuck;
    if (!is_stuck)
        notify_manager("WATCHDOG=1", NULL, NOTIFY_MAY_BE_LOST);
}

void manager_forget(const char *name)
{
    char message[64 + INHERITED_NAME_MAX];
    snprintf(message, sizeof(message), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    notify_manager(message, NULL, NOTIFY_MUST_ARRIVE);
}

static void keep_listener(struct manager *m)
{
    char name[LISTENER_NAME_MAX], message[64 + LISTENER_NAME_MAX];
    if (!m->keeps || m->listener->inherited || m->listener->kept)
        return;
    const struct notify_files files = { .fds = &m->listener->fd, .count = 1 };
    listener_name(m->listener, name);
    snprintf(message, sizeof(message), "FDSTORE=1\nFDNAME=%s", name);
    m->listener->kept = notify_manager(message, &files, NOTIFY_MUST_ARRIVE);
}

void manager_init(struct manager *m, struct loop *loop, struct loop_owner *owner,
                  struct listener *listener, const char *setting)
{
    bool is_off = strcmp(setting, "off") == 0;
    bool is_auto = strcmp(setting, "auto") == 0;
    *m = (struct manager){ .loop = loop, .listener = listener };
    m->keeps = notify_is_on() && !is_off && (!is_auto || notify_store_size() > 0);
    loop_timer_init(loop, &m->watchdog, owner, on_watchdog);
}

void manager_ready(struct manager *m)
{
    report_status(m, "READY=1\n");
    keep_listener(m);
    if (notify_watchdog_ms() > 0)
        loop_timer_start(&m->watchdog, notify_watchdog_ms(), notify_watchdog_ms());
}

void manager_tick(struct manager *m)
{
    if (notify_is_on() && loop_now_ms(m->loop) - m->reported_ms >= STATUS_EVERY_MS)
        report_status(m, "");
}

void manager_reloading(struct manager *m)
{
    struct timespec now;
    char message[96];
    (void)m;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
    notify_manager(message, NULL, NOTIFY_MUST_ARRIVE);
}

void manager_reloaded(struct manager *m, const char *note)
{
    snprintf(m->note, sizeof(m->note), "%s", note);
    report_status(m, "READY=1\n");
}

void manager_stopping(struct manager *m, uint64_t timeout_ms)
{
    char message[128];
    (void)m;
    snprintf(message, sizeof(message),
             "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu\nSTATUS=stopping: running work may finish",
             (unsigned long long)(timeout_ms + STOP_MARGIN_MS) * 1000);
    notify_manager(message, NULL, NOTIFY_MUST_ARRIVE);
}

void manager_close(struct manager *m) { loop_timer_close(&m->watchdog); }
