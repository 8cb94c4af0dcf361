/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/history.h"

#include "engine/service/internal.h"
#include "engine/service/kernels/store_tasks.h"

#include <string.h>

#define EVERY_NS (HISTORY_EVERY_S * UINT64_C(1000000000))

struct history {
    uint64_t written[HISTORY_COLUMNS]; /* for each counter, the sum of all samples so far */
    uint64_t since;                    /* end of the last sample, seconds since the epoch */
    uint64_t at_ns;
    bool is_busy;
};

struct history_task {
    struct store_write base;
    struct kernel_sample sample;
    bool written;
};

static uint64_t count_clients(const struct engine *e)
{
    KILN_AUTO(json) struct json *stats = json_object();
    if (e->host)
        e->host->add_stats(e->host, stats);
    return json_get_u64(stats, "clients", 0);
}

/* Reads the current value of each counter column. The hits and misses of prefetches do not
 * count. */
static void read_counters(const struct engine *e, uint64_t values[HISTORY_COLUMNS])
{
    const struct stats *s = &e->stats;
    const uint64_t *ahead = e->metrics.ahead;
    const uint64_t now[HISTORY_COLUMNS] = {
        [HISTORY_requests] = s->requests,
        [HISTORY_refused] = s->refused,
        [HISTORY_fetches] = s->fetches,
        [HISTORY_hits_hot] = s->hits_hot - ahead[LOOKUP_HOT],
        [HISTORY_hits_disk] = s->hits_disk - ahead[LOOKUP_DISK],
        [HISTORY_hits_package] = s->hits_package - ahead[LOOKUP_PACKAGE],
        [HISTORY_hits_fleet] = s->hits_fleet - ahead[LOOKUP_FLEET],
        [HISTORY_misses_new] = s->misses_new,
        [HISTORY_misses_damaged] = s->misses_damaged,
        [HISTORY_misses_store] = s->misses_store,
        [HISTORY_misses_uncached] = s->misses_uncached,
        [HISTORY_misses_remembered] = s->misses_remembered,
        [HISTORY_misses_unknown] = s->misses_unknown,
        [HISTORY_misses_refused] = s->misses_refused,
        [HISTORY_coalesced] = s->coalesced,
        [HISTORY_compiles] = s->compiles,
        [HISTORY_compile_errors] = s->compile_errors,
        [HISTORY_compile_us] = e->metrics.compile_us,
        [HISTORY_saved_us] = e->metrics.saved_us,
        [HISTORY_evictions] = s->evictions,
    };
    memcpy(values, now, sizeof(now));
}

enum kiln_code history_create(struct history **ret_history, struct kiln_err *err)
{
    struct history *h = calloc(1, sizeof(*h));
    if (!h)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the history");
    h->since = clock_wall_s();
    h->at_ns = clock_monotonic_ns() + EVERY_NS;
    *ret_history = h;
    return KILN_OK;
}

void history_destroy(struct history *h) { free(h); }

uint64_t history_written(const struct engine *e, int column) { return e->history->written[column]; }

struct kernel_sample history_unwritten(const struct engine *e)
{
    const struct history *h = e->history;
    struct kernel_sample sample = { .time = clock_wall_s() };
    read_counters(e, sample.values);
    for (int i = 0; i < HISTORY_SUMS; i++)
        sample.values[i] -= h->written[i];
    sample.values[HISTORY_hot_bytes] = hot_set_bytes(e->hot);
    sample.values[HISTORY_clients] = count_clients(e);
    if (sample.time <= h->since)
        sample.time = h->since + 1;
    sample.span_s = sample.time - h->since;
    return sample;
}

static bool is_quiet(const struct kernel_sample *s)
{
    return s->values[HISTORY_fetches] == 0 && s->values[HISTORY_compiles] == 0 &&
           s->values[HISTORY_evictions] == 0;
}

static enum kiln_code write_sample(struct store_write *w, struct kiln_err *err)
{
    struct history_task *t = (struct history_task *)w;
    struct kernel_store *store = w->engine->store;
    struct kernel_usage usage = { 0 };
    enum kiln_code rc = kernel_store_usage(store, &usage, err);
    t->sample.values[HISTORY_store_bytes] = usage.stored_bytes;
    t->sample.values[HISTORY_store_objects] = usage.objects;
    return rc ? rc : kernel_store_history_put(store, &t->sample, HISTORY_KEPT_S, &t->written, err);
}

static void end_sample(struct store_write *w)
{
    struct history_task *t = (struct history_task *)w;
    struct history *h = w->engine->history;
    h->is_busy = false;
    for (int i = 0; t->written && i < HISTORY_SUMS; i++)
        h->written[i] += t->sample.values[i];
    if (t->written)
        h->since = t->sample.time;
    free(t);
}

void history_write(struct engine *e, bool force)
{
    struct history *h = e->history;
    uint64_t now = clock_monotonic_ns();
    if (h->is_busy || (now < h->at_ns && !force) || kernel_store_mode(e->store) != KERNEL_STORE_ON)
        return;
    h->at_ns = now + EVERY_NS;
    struct kernel_sample sample = history_unwritten(e);
    if (is_quiet(&sample)) {
        h->since = sample.time;
        return;
    }
    struct history_task *t = calloc(1, sizeof(*t));
    if (!t)
        return;
    t->base.write = write_sample;
    t->base.written = end_sample;
    t->sample = sample;
    h->is_busy = true;
    store_write_run(e, e->own_uid, &t->base);
}
