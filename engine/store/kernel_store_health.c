/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* The first and the longest wait between a failed write and the next try. The wait doubles after
 * each failed try. Each try costs a compression and a failed transaction. */
#define RETRY_FIRST_NS 250000000u
#define RETRY_MAX_NS 8000000000u

const char *kernel_health_name(enum kernel_health_state state)
{
    static const char *const names[] = { "ok", "full", "read-only", "io-error" };
    return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

const char *kernel_store_mode_name(enum kernel_store_mode mode)
{
    static const char *const names[] = { "on", "read-only", "off" };
    return (size_t)mode < sizeof(names) / sizeof(names[0]) ? names[mode] : "?";
}

enum kernel_store_mode kernel_store_mode(const struct kernel_store *store) { return store->mode; }

void kernel_store_health(struct kernel_store *store, struct kernel_health *ret_health)
{
    pthread_mutex_lock(&store->mutex);
    *ret_health = store->health;
    pthread_mutex_unlock(&store->mutex);
}

static bool disk_is_read_only(const struct kernel_store *store)
{
    struct statvfs fs;
    return statvfs(store->directory, &fs) == 0 && (fs.f_flag & ST_RDONLY);
}

enum kernel_health_state store_health_of(const struct kernel_store *store, enum kiln_code rc)
{
    switch (rc) {
    case KILN_FULL: return KERNEL_HEALTH_FULL;
    case KILN_DENIED: return KERNEL_HEALTH_READ_ONLY;
    case KILN_IO:
        return disk_is_read_only(store) ? KERNEL_HEALTH_READ_ONLY : KERNEL_HEALTH_IO_ERROR;
    default: return KERNEL_HEALTH_OK;
    }
}

bool store_health_drops(struct kernel_store *store)
{
    if (store->health.state == KERNEL_HEALTH_OK || clock_monotonic_ns() >= store->retry.at_ns)
        return false;
    pthread_mutex_lock(&store->mutex);
    store->health.dropped++;
    pthread_mutex_unlock(&store->mutex);
    return true;
}

static void wait_longer(struct kernel_store *store)
{
    uint64_t wait = store->retry.after_ns ? 2 * store->retry.after_ns : RETRY_FIRST_NS;
    store->retry.after_ns = wait < RETRY_MAX_NS ? wait : RETRY_MAX_NS;
    store->retry.at_ns = clock_monotonic_ns() + store->retry.after_ns;
}

static bool note_failure(struct kernel_store *store, enum kernel_health_state state,
                         const char *why, bool dropped)
{
    wait_longer(store);
    pthread_mutex_lock(&store->mutex);
    struct kernel_health *h = &store->health;
    bool is_new = h->state != state;
    if (h->state == KERNEL_HEALTH_OK)
        *h = (struct kernel_health){ .since = clock_wall_s() };
    h->state = state;
    h->dropped += dropped;
    snprintf(h->text, sizeof(h->text), "%s", why);
    pthread_mutex_unlock(&store->mutex);
    return is_new;
}

/* Returns whether the disk has space for a real write. On a full disk, a tiny test write may still
 * succeed, because it may fit into the log. */
static bool has_free_space(const struct kernel_store *store)
{
    uint64_t wanted = store->retry.wanted > STORE_FREE_MIN ? store->retry.wanted : STORE_FREE_MIN;
    struct statvfs fs;
    return statvfs(store->directory, &fs) != 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= wanted;
}

static void note_success(struct kernel_store *store)
{
    if (store->health.state == KERNEL_HEALTH_OK ||
        (store->health.state == KERNEL_HEALTH_FULL && !has_free_space(store)))
        return;
    char notice[512];
    pthread_mutex_lock(&store->mutex);
    struct kernel_health was = store->health;
    store->health = (struct kernel_health){ 0 };
    pthread_mutex_unlock(&store->mutex);
    uint64_t now = clock_wall_s();
    snprintf(notice, sizeof(notice),
             "the kernel cache '%.200s' is writable again; it was %s for %llu s, and %llu writes "
             "were dropped meanwhile",
             store->path, kernel_health_name(was.state),
             (unsigned long long)(now > was.since ? now - was.since : 0),
             (unsigned long long)was.dropped);
    store_set_notice(store, KERNEL_NOTICE_RECOVERED, notice);
    store->retry.after_ns = 0;
    store->retry.wanted = 0;
}

enum kiln_code store_health_note(struct kernel_store *store, enum store_write_kind kind,
                                 enum kiln_code rc, const struct kiln_err *err)
{
    enum kernel_health_state state = rc ? store_health_of(store, rc) : KERNEL_HEALTH_OK;
    if (!rc)
        note_success(store);
    if (state == KERNEL_HEALTH_OK)
        return rc;
    bool dropped = kind == STORE_BACKGROUND;
    bool is_new = note_failure(store, state, err->text, dropped);
    if (is_new && !dropped) /* the caller reports the failure to a client, but does not log it */
        store_set_notice(store, KERNEL_NOTICE_TROUBLE, err->text);
    return is_new || !dropped ? rc : KILN_OK;
}
