/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_tier.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/jitter.h"
#include "engine/service/fleet/fleet_parts.h"
#include "engine/service/fleet/fleet_records.h"

#include <stdio.h>
#include <string.h>

#define EPOCHS_NAME "fleet-epochs"
#define PAUSE_MIN_NS 60000000000u
#define PAUSE_MAX_NS 300000000000u
/* The first pause after the store has asked for fewer requests. */
#define BUSY_PAUSE_MIN_NS 4000000000u
#define SECOND_NS 1000000000u

/* If the file is damaged, uses the lines before the damage. If the epoch of a shard is lost, kilnd
 * may accept an old index of this shard, but still only one that a trusted key signed. */
static enum kiln_code read_epochs(struct fleet_tier *tier, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FLEET_EPOCHS_TEXT_MAX);
    enum kiln_code rc = fs_read_file(tier->epochs_path, FLEET_EPOCHS_TEXT_MAX, &text, err);
    if (rc)
        return rc == KILN_NOT_FOUND || rc == KILN_FULL ? KILN_OK : rc;
    (void)fleet_epochs_read(buffer_view(&text), &tier->epochs);
    return KILN_OK;
}

static enum kiln_code open_tier(struct fleet_tier *tier, const struct fleet_tier_options *options,
                                struct kiln_err *err)
{
    int keys = snprintf(tier->keys, sizeof(tier->keys), "%s", options->keys ? options->keys : "");
    int epochs = options->state_directory ? snprintf(tier->epochs_path, sizeof(tier->epochs_path),
                                                     "%s/" EPOCHS_NAME, options->state_directory)
                                          : 0;
    if (keys >= PATH_MAX || epochs >= PATH_MAX)
        return kiln_fail(err, KILN_INVALID, "a path of the fleet tier is too long");
    enum kiln_code rc = tier->epochs_path[0] ? read_epochs(tier, err) : KILN_OK;
    tier->keys_read_ns = clock_monotonic_ns();
    return rc ? rc : fleet_keys_read(tier, &tier->trusted, err);
}

enum kiln_code fleet_tier_create(const struct fleet_tier_options *options,
                                 struct fleet_tier **ret_tier, struct kiln_err *err)
{
    struct fleet_tier *tier = calloc(1, sizeof(*tier));
    if (!tier)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the fleet tier");
    tier->is_on = options->is_on;
    tier->wait_ms = options->wait_ms ? options->wait_ms : FLEET_WAIT_MS;
    list_init(&tier->shards);
    fleet_leases_open(&tier->leases, options->lease_compile_min_ns);
    if (tier->is_on && options->adds_kernels)
        tier->leases.state = LEASES_UNKNOWN;
    enum kiln_code rc = tier->is_on ? open_tier(tier, options, err) : KILN_OK;
    if (rc)
        fleet_tier_destroy(tier);
    else
        *ret_tier = tier;
    return rc;
}

void fleet_tier_destroy(struct fleet_tier *tier)
{
    if (!tier)
        return;
    fleet_records_destroy(tier->records);
    fleet_pull_destroy(tier->pull);
    LIST_EACH (&tier->shards, struct shard, link, shard)
        shard_destroy(shard);
    trusted_unref(tier->trusted);
    fleet_epochs_done(&tier->epochs);
    fleet_leases_close(&tier->leases);
    free(tier);
}

bool fleet_tier_is_idle(const struct fleet_tier *tier) { return tier->running == 0; }

struct epochs_write {
    struct task task;
    struct engine *engine;
    struct buffer text; /* owned */
    enum kiln_code rc;
    struct kiln_err err;
};

static void write_epochs(struct task *task)
{
    struct epochs_write *w = (struct epochs_write *)(void *)task;
    w->rc = fs_replace_file(w->engine->fleet->epochs_path, buffer_view(&w->text), 0600, &w->err);
}

static void end_epochs(struct task *task)
{
    struct epochs_write *w = (struct epochs_write *)(void *)task;
    engine_task_ended(w->engine);
    w->engine->fleet->running--;
    if (w->rc)
        fleet_report_error(w->engine, w->err.text);
    buffer_done(&w->text);
    free(w);
}

void fleet_epochs_save(struct engine *e)
{
    struct fleet_tier *tier = e->fleet;
    struct epochs_write *w = tier->epochs_path[0] ? calloc(1, sizeof(*w)) : NULL;
    if (!w)
        return; /* the epochs are saved with the next accepted index */
    buffer_init(&w->text, FLEET_EPOCHS_TEXT_MAX);
    fleet_epochs_write(&tier->epochs, &w->text);
    if (w->text.failed) { /* an incomplete file would permit old indices after a restart */
        buffer_done(&w->text);
        free(w);
        return;
    }
    w->task = (struct task){ .work = write_epochs, .done = end_epochs };
    w->engine = e;
    tier->running++;
    engine_run(e, e->own_uid, WORK_QUEUE_WRITE, &w->task);
}

bool fleet_tier_is_on(const struct fleet_tier *tier) { return tier->is_on; }

bool fleet_tier_is_up(const struct fleet_tier *tier) { return tier->is_on && !tier->is_broken; }

uint64_t fleet_tier_late(const struct fleet_tier *tier) { return tier->late; }

uint64_t fleet_tier_ends(const struct fleet_tier *tier, enum fleet_end end)
{
    return tier->ends[end];
}

uint64_t fleet_tier_faults(const struct fleet_tier *tier, enum fleet_fault fault)
{
    return tier->faults[fault];
}

uint64_t fleet_wait_left_ms(const struct fleet_tier *tier, uint64_t began_ns)
{
    uint64_t spent_ms = (clock_monotonic_ns() - began_ns) / 1000000;
    return spent_ms < tier->wait_ms ? tier->wait_ms - spent_ms : 1;
}

void fleet_access_start(struct engine *e, struct fleet_access *get)
{
    if (!get->is_put)
        get->fd = -1;
    get->sent_ns = clock_monotonic_ns();
    e->fleet->running++;
    e->executor->ops->fleet_access(e->executor, get);
}

/* Stops look-ups until the store answers again. The first pause is |pause_min_ns|. Each attempt
 * that fails doubles the pause. Requests that fail at the same time count only once. The next
 * attempt comes earlier by a random time, so that the hosts of a fleet do not try the store at the
 * same moment. */
static void break_tier(struct engine *e, uint64_t pause_min_ns)
{
    struct fleet_tier *tier = e->fleet;
    uint64_t longer = tier->pause_ns * 2;
    if (tier->is_broken && !tier->is_trying)
        return;
    tier->is_trying = false;
    tier->pause_ns = tier->pause_ns == 0     ? pause_min_ns
                     : longer < PAUSE_MAX_NS ? longer
                                             : PAUSE_MAX_NS;
    uint64_t now_ns = clock_monotonic_ns();
    if (!tier->is_broken)
        tier->broken_ns = now_ns;
    tier->is_broken = true;
    tier->retry_ns = now_ns + jitter_shorten(tier->pause_ns);
}

uint64_t fleet_busy_ns(uint64_t wait_s)
{
    return wait_s < PAUSE_MAX_NS / SECOND_NS ? wait_s * SECOND_NS : PAUSE_MAX_NS;
}

/* Does as break_tier, but leaves the store alone at least for the time that it wants. */
static void obey_busy_store(struct engine *e, uint64_t wait_s)
{
    struct fleet_tier *tier = e->fleet;
    uint64_t until_ns = clock_monotonic_ns() + fleet_busy_ns(wait_s);
    break_tier(e, BUSY_PAUSE_MIN_NS);
    tier->is_busy = true;
    if (tier->retry_ns < until_ns) /* the random time spreads the hosts after this time, too */
        tier->retry_ns = until_ns + (tier->pause_ns - jitter_shorten(tier->pause_ns));
}

static void repair_tier(struct fleet_tier *tier)
{
    tier->is_broken = tier->is_busy = tier->is_trying = false;
    tier->pause_ns = 0;
    tier->answered_ns = clock_monotonic_ns();
}

/* Returns whether the answer shows that the store works again. An answer to a request that was sent
 * before the store failed does not. If the store has asked for fewer requests, only the answer to
 * an attempt does. */
static bool may_repair(const struct fleet_tier *tier, const struct fleet_access *get)
{
    if (get->is_slow)
        return false;
    return !tier->is_broken ||
           (get->sent_ns >= tier->broken_ns && (tier->is_trying || !tier->is_busy));
}

static bool is_answer(enum fleet_end end)
{
    return end == FLEET_END_DONE || end == FLEET_END_EXISTS || end == FLEET_END_ABSENT ||
           end == FLEET_END_FORBIDDEN || end == FLEET_END_REFUSED || end == FLEET_END_TOO_LARGE ||
           end == FLEET_END_MALFORMED;
}

void fleet_report_error(struct engine *e, const char *text)
{
    snprintf(e->fleet->last_error, sizeof(e->fleet->last_error), "%s", text);
    e->fleet->last_error_ns = clock_monotonic_ns();
    event_report(e, "fleet_error", text);
}

static void report_end(struct engine *e, const struct fleet_access *get)
{
    char text[FLEET_FILE_NAME_MAX + 160];
    bool is_stopping = e->draining && get->end == FLEET_END_STOPPED;
    bool is_without_list = get->is_list && get->end != FLEET_END_BUSY;
    if (get->end == FLEET_END_DONE || get->end == FLEET_END_EXISTS ||
        get->end == FLEET_END_ABSENT || is_stopping || is_without_list)
        return; /* without a list, records are requested one by one */
    snprintf(text, sizeof(text), "cannot %s '%s' of the fleet's tree: %s",
             get->is_put ? "add" : "read", get->name, fleet_end_text(get->end));
    fleet_report_error(e, text);
}

/* Returns whether the end shows that the store fails. The end of a list does not: the store may
 * have no lists, or need too long for one, and still answer the requests for records that follow.
 */
static bool is_failure(const struct engine *e, const struct fleet_access *get)
{
    return !is_answer(get->end) && !get->is_list && !e->draining;
}

bool fleet_access_ended(struct engine *e, const struct fleet_access *get)
{
    struct fleet_tier *tier = e->fleet;
    tier->running--;
    tier->ends[get->end]++;
    report_end(e, get);
    if (get->end == FLEET_END_BUSY)
        obey_busy_store(e, get->wait_s);
    else if (is_failure(e, get))
        break_tier(e, PAUSE_MIN_NS);
    else if (is_answer(get->end) && may_repair(tier, get))
        repair_tier(tier);
    return get->end == FLEET_END_DONE;
}

void fleet_note_silence(struct engine *e, uint64_t began_ns)
{
    const struct fleet_tier *tier = e->fleet;
    bool is_attempt = tier->is_trying && began_ns >= tier->tried_ns;
    if (tier->answered_ns < began_ns && (!tier->is_broken || is_attempt))
        break_tier(e, PAUSE_MIN_NS);
}

void fleet_note_fault(struct engine *e, enum fleet_fault fault, const char *what)
{
    char text[256];
    e->fleet->faults[fault]++;
    snprintf(text, sizeof(text), "%s of the fleet's tree is not used: %s", what,
             fleet_fault_text(fault));
    fleet_report_error(e, text);
}

void fleet_note_attempt(struct fleet_tier *tier, uint64_t now_ns)
{
    tier->is_trying = true;
    tier->tried_ns = now_ns;
    tier->retry_ns = now_ns + jitter_shorten(tier->pause_ns);
}

static bool is_due(const struct shard *shard, uint64_t now_ns)
{
    return !shard->is_loading && now_ns - shard->asked_ns < FLEET_IDLE_NS &&
           now_ns >= shard->refresh_ns;
}

/* Loads the indices that are due. While the store fails, loads only one index after each pause, to
 * try the store. */
static void refresh_shards(struct engine *e, uint64_t now_ns)
{
    struct fleet_tier *tier = e->fleet;
    bool tries = tier->is_broken;
    if (tries && now_ns < tier->retry_ns)
        return;
    LIST_EACH (&tier->shards, struct shard, link, shard) {
        if (shard->is_loading || !(tries || is_due(shard, now_ns)))
            continue;
        shard_load(shard);
        if (!tries)
            continue;
        fleet_note_attempt(tier, now_ns);
        return;
    }
}

void fleet_tier_tick(struct engine *e)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (!e->fleet->is_on || e->draining)
        return;
    fleet_keys_tick(e, now_ns);
    refresh_shards(e, now_ns);
    fleet_leases_tick(e, now_ns);
    fleet_pull_tick(e);
    fleet_records_tick(e, now_ns);
}

void fleet_tier_drain(struct engine *e) { fleet_leases_give_up(e); }
