/* SPDX-License-Identifier: MIT */
#include "daemon/manager/manager.h"

#include "common/log.h"
#include "daemon/manager/notify.h"
#include "daemon/manager/parcel.h"
#include "daemon/server/descriptors.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* People read it. */
#define STATUS_EVERY_MS 5000
/* What a killed kilnd loses of its hot set; giving it away costs the loop milliseconds. */
#define KEEP_EVERY_MS 10000
/* What closing costs beyond the drain: the last image, processes that end, databases. */
#define STOP_MARGIN_MS 15000u
/* Two names in turn: the old one goes when the new one is there. */
static const char *const image_names[2] = { "kiln-hot-a", "kiln-hot-b" };
#define IMAGE_PREFIX "kiln-hot-"

/* ---- telling ---- */

static void describe(const struct manager *m, char status[160])
{
    struct engine_pulse pulse = engine_pulse(m->engine);
    unsigned clients = m->server ? server_counts(m->server).clients : 0;
    double rate = pulse.asked ? 100.0 * (double)pulse.found / (double)pulse.asked : 0;
    int used = snprintf(status, 160, "%.80s%s%llu kernels asked for", m->note, *m->note ? "; " : "",
                        (unsigned long long)pulse.asked);
    if (pulse.asked)
        used += snprintf(status + used, 160 - (size_t)used, ", %.1f%% found", rate);
    snprintf(status + used, 160 - (size_t)used, "; %u clients; %u compiling, %u waiting", clients,
             pulse.compiling, pulse.waiting);
}

static void tell_status(struct manager *m, const char *before)
{
    char message[320], status[160];
    describe(m, status);
    m->told_ms = loop_now_ms(m->loop);
    if (!*before && strcmp(status, m->status) == 0)
        return;
    snprintf(message, sizeof(message), "%sSTATUS=%s", before, status);
    memcpy(m->status, status, sizeof(status));
    notify_manager(message, NULL, *before ? NOTIFY_MUST_ARRIVE : NOTIFY_MAY_BE_LOST);
}

static void on_watchdog(struct loop_timer *timer)
{
    (void)timer;
    notify_manager("WATCHDOG=1", NULL, NOTIFY_MAY_BE_LOST);
}

/* ---- keeping ---- */

static bool forget(const char *name, enum notify_urgency urgency)
{
    char message[64 + INHERITED_NAME_MOST];
    snprintf(message, sizeof(message), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    return notify_manager(message, NULL, urgency);
}

void manager_forget(const char *name) { forget(name, NOTIFY_MUST_ARRIVE); }

static bool store(const char *name, const int *fds, size_t count, enum notify_urgency urgency)
{
    char message[64 + INHERITED_NAME_MOST];
    const struct notify_files files = { .fds = fds, .count = count };
    snprintf(message, sizeof(message), "FDSTORE=1\nFDNAME=%s", name);
    return notify_manager(message, &files, urgency);
}

static size_t objects_most(void)
{
    size_t most = descriptors_in_flight_most();
    return most < PARCEL_FILES_MOST ? most : PARCEL_FILES_MOST;
}

static enum kiln_code pack(struct manager *m, int ret_ends[2], struct kiln_err *err)
{
    HOT_IMAGE_AUTO struct hot_image image = { 0 };
    enum kiln_code rc = engine_hot_export(m->engine, m->sequence + 1, objects_most(), &image, err);
    return rc ? rc : parcel_pack(buffer_view(&image.index), image.fds, image.count, ret_ends, err);
}

static void keep_hot_set(struct manager *m, enum notify_urgency urgency)
{
    int ends[2];
    struct kiln_err err = KILN_ERR_INIT;
    m->kept_ms = loop_now_ms(m->loop);
    if (pack(m, ends, &err) != KILN_OK) {
        log_event(LOG_EVENT_hot_set_not_kept, NULL, "keeping the hot set for a restart: %s",
                  err.text);
        return;
    }
    m->sequence++;
    const char *name = image_names[m->sequence % 2];
    bool stored = store(name, ends, 2, urgency);
    close(ends[0]);
    close(ends[1]);
    if (!stored)
        return; /* tried again when the next one is due */
    if (m->has_image)
        forget(image_names[(m->sequence + 1) % 2], urgency);
    m->has_image = true;
    m->kept_changes = engine_hot_changes(m->engine);
}

/* Both names: the old image may be there yet. */
static void forget_outdated(struct manager *m, enum notify_urgency urgency)
{
    bool is_gone = forget(image_names[0], urgency) && forget(image_names[1], urgency);
    m->has_image = m->is_outdated = !is_gone;
    m->kept_ms = 0;
    m->kept_changes = 0;
}

void manager_forget_hot(struct manager *m)
{
    if (m->has_image)
        forget_outdated(m, NOTIFY_MUST_ARRIVE);
}

static void keep_listener(struct manager *m)
{
    char name[LISTENER_NAME_MOST];
    if (!m->keeps || m->listener->inherited || m->listener->kept)
        return;
    listener_name(m->listener, name);
    m->listener->kept = store(name, &m->listener->fd, 1, NOTIFY_MUST_ARRIVE);
}

/* ---- taking back ---- */

bool manager_knows(const char *name)
{
    return strncmp(name, IMAGE_PREFIX, strlen(IMAGE_PREFIX)) == 0 ||
           strncmp(name, LISTENER_NAME_PREFIX, strlen(LISTENER_NAME_PREFIX)) == 0;
}

static void say_dropped(const char *name, const struct kiln_err *why)
{
    log_event(LOG_EVENT_hot_set_dropped, NULL,
              "'%.64s', which the service manager kept, is not used: %s", name, why->text);
}

/* The newest of those that can be read; both names may be there after a kill at the wrong time. */
static void choose(struct inherited *in, struct parcel *best, char best_name[INHERITED_NAME_MOST])
{
    struct inherited_fd *item = NULL;
    for (size_t i = 0; i < in->count; i++) {
        item = &in->items[i];
        if (item->fd < 0 || strncmp(item->name, IMAGE_PREFIX, strlen(IMAGE_PREFIX)) != 0)
            continue;
        PARCEL_AUTO struct parcel parcel = { 0 };
        struct kiln_err err = KILN_ERR_INIT;
        enum kiln_code rc = parcel_unpack(item->fd, &parcel, &err);
        if (rc && rc != KILN_NOT_FOUND)
            say_dropped(item->name, &err);
        if (rc || (best->fds && hot_image_sequence(buffer_view(&parcel.index)) <
                                    hot_image_sequence(buffer_view(&best->index))))
            continue;
        parcel_done(best);
        *best = parcel;
        parcel = (struct parcel){ 0 };
        memcpy(best_name, item->name, INHERITED_NAME_MOST);
    }
}

static void import(struct manager *m, struct parcel *parcel, const char *name)
{
    struct hot_image_taken taken = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    m->sequence = hot_image_sequence(buffer_view(&parcel->index));
    if (engine_hot_import(m->engine, buffer_view(&parcel->index), parcel->fds, parcel->count,
                          &taken, &err)) {
        say_dropped(name, &err);
        return;
    }
    if (taken.refused > 0)
        log_event(LOG_EVENT_hot_set_dropped, NULL,
                  "%zu of %zu code objects that the service manager kept are not what their index "
                  "says, and are not used",
                  taken.refused, taken.refused + taken.objects);
    log_event(LOG_EVENT_hot_set_restored, NULL,
              "%zu code objects of the kilnd before are in memory", taken.objects);
}

/* What came out of a parcel is in it no more, so all of them go; manager_ready gives a new one. */
static void forget_images(struct inherited *in)
{
    for (size_t i = 0; i < 2; i++) {
        if (inherited_find(in, image_names[i], 0))
            manager_forget(image_names[i]);
    }
}

void manager_restore(struct manager *m, struct inherited *in)
{
    PARCEL_AUTO struct parcel best = { 0 };
    char name[INHERITED_NAME_MOST] = "";
    if (!inherited_find(in, IMAGE_PREFIX, 0))
        return;
    m->keeps = m->keeps || m->may_keep;
    choose(in, &best, name);
    if (best.fds)
        import(m, &best, name);
    forget_images(in);
}

/* ---- life ---- */

void manager_init(struct manager *m, struct loop *loop, struct loop_owner *owner,
                  struct listener *listener, const char *setting)
{
    bool is_off = strcmp(setting, "off") == 0;
    bool is_auto = strcmp(setting, "auto") == 0;
    *m = (struct manager){ .loop = loop, .listener = listener };
    m->may_keep = notify_is_on() && !is_off;
    m->keeps = m->may_keep && (!is_auto || notify_store_size() > 0);
    loop_timer_init(loop, &m->watchdog, owner, on_watchdog);
}

void manager_ready(struct manager *m)
{
    if (m->keeps && engine_hot_changes(m->engine) != m->kept_changes)
        keep_hot_set(m, NOTIFY_MUST_ARRIVE);
    tell_status(m, "READY=1\n");
    keep_listener(m);
    if (notify_watchdog_ms() > 0)
        loop_timer_start(&m->watchdog, notify_watchdog_ms(), notify_watchdog_ms());
}

void manager_tick(struct manager *m)
{
    uint64_t now = loop_now_ms(m->loop);
    if (!notify_is_on())
        return;
    if (now - m->told_ms >= STATUS_EVERY_MS)
        tell_status(m, "");
    if (m->is_outdated)
        forget_outdated(m, NOTIFY_MAY_BE_LOST);
    bool is_due = m->kept_ms == 0 || now - m->kept_ms >= KEEP_EVERY_MS;
    if (m->keeps && is_due && !m->is_outdated && engine_hot_changes(m->engine) != m->kept_changes)
        keep_hot_set(m, NOTIFY_MAY_BE_LOST);
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
    tell_status(m, "READY=1\n");
}

void manager_stopping(struct manager *m, uint64_t timeout_ms)
{
    char message[128];
    (void)m;
    snprintf(message, sizeof(message),
             "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu\nSTATUS=stopping: what runs may end",
             (unsigned long long)(timeout_ms + STOP_MARGIN_MS) * 1000);
    notify_manager(message, NULL, NOTIFY_MUST_ARRIVE);
}

void manager_keep_last(struct manager *m)
{
    if (m->keeps && m->engine)
        keep_hot_set(m, NOTIFY_MUST_ARRIVE);
}

void manager_close(struct manager *m) { loop_timer_close(&m->watchdog); }
