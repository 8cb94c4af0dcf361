/* SPDX-License-Identifier: MIT */
/*
 * Promotion copies entries of users to the host's records, which decide the plans (solver and
 * parameters) of all users who have no record of their own.
 *
 * A client can send a false measurement. So, unless an administrator names the user, an entry is
 * only promoted if a second user measured about the same time. To find that user, the entries of
 * all users are sorted by record and solver.
 */
#include "engine/tuning/tuning_job.h"

#include "common/base/array.h"
#include "common/base/subordinate_uids.h"

#include <stdio.h>
#include <string.h>

/* Two times confirm each other if they differ by at most this factor. A false time that is wrong by
 * less can be confirmed, and can change the choice between two solvers. */
#define SAME_FACTOR 1.25

struct claim { /* an entry of a user, which may be false */
    const struct tuning_held *held;
    const struct tuning_row *row;
    struct bytes solver;
    double time_ms;
};

struct promoting {
    struct tuning_job *job;
    struct claim *claims; /* owned; sorted; empty if no second user is needed */
    size_t count, max;
    struct tuning_promoter *users;
    size_t user_count, user_max;
    enum kiln_code rc;
    struct kiln_err *err;
};

static void promoting_done(struct promoting *p)
{
    free(p->claims);
    free(p->users);
}

static struct claim claim_of(const struct tuning_held *held, const struct tuning_row *row)
{
    struct tuning_entry entry;
    bool is_measured = row->measured.samples > 0 && row->measured.median_ms > 0;
    struct claim claim = { .held = held,
                           .row = row,
                           .solver = row->id,
                           .time_ms = is_measured ? row->measured.median_ms : 0 };
    if (held->place.kind != TUNING_FIND || !tuning_row_entry(row, &entry))
        return claim;
    claim.solver = entry.solver;
    claim.time_ms = is_measured ? claim.time_ms : entry.time_ms;
    return claim;
}

static int compare_claims(const void *left, const void *right)
{
    const struct claim *a = left, *b = right;
    const struct tuning_place *x = &a->held->place, *y = &b->held->place;
    int order = (int)x->kind - (int)y->kind;
    if (!order)
        order = strcmp(x->database_id, y->database_id);
    if (!order)
        order = strcmp(x->backend, y->backend);
    if (!order)
        order = bytes_compare(x->key, y->key);
    return order ? order : bytes_compare(a->solver, b->solver);
}

static bool add_claim(struct promoting *p, struct claim claim)
{
    if (!ARRAY_RESERVE(p->claims, p->count, p->max, 1024))
        return false;
    p->claims[p->count++] = claim;
    return true;
}

static bool collect_claims(void *context, const struct tuning_held *held)
{
    struct promoting *p = context;
    for (size_t i = 0; !p->rc && i < held->row_count; i++) {
        if (!add_claim(p, claim_of(held, &held->rows[i])))
            p->rc = job_no_memory(p->err);
    }
    return p->rc == KILN_OK;
}

/* Returns whether |witness|, another user's entry, confirms |claim|. Perf entries must have the
 * same parameters. If |claim| has a time, |witness| must have about the same time, because the time
 * decides which parameters win. Imported parameters have no time. */
static bool confirms(const struct claim *witness, const struct claim *claim)
{
    double a = witness->time_ms, b = claim->time_ms;
    double low = a < b ? a : b, high = a < b ? b : a;
    bool is_perf = claim->held->place.kind == TUNING_PERF;
    if (is_perf && !bytes_equal(witness->row->values, claim->row->values))
        return false;
    return (is_perf && b <= 0) || (low > 0 && high <= SAME_FACTOR * low);
}

static const struct claim *first_like(const struct promoting *p, const struct claim *claim)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_claims(&p->claims[middle], claim) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return p->claims + low;
}

static bool is_believed(const struct promoting *p, const struct claim *claim)
{
    const struct tuning_promotion *how = &p->job->promotion;
    uint32_t uid = claim->held->place.uid;
    if (!how->needs_two || uid == how->caller)
        return true;
    const struct claim *end = p->claims + p->count;
    for (const struct claim *c = first_like(p, claim); c < end && !compare_claims(c, claim); c++) {
        if (!is_one_user(c->held->place.uid, uid) && confirms(c, claim))
            return true;
    }
    return false;
}

/* Returns the value that users without a record get: the host's, or else the system's, or else an
 * empty one. */
static struct bytes value_for_others(struct tuning *t, const struct tuning_place *host)
{
    const struct tuning_held *held = tuning_table_find(t->table, host);
    struct bytes value = { 0 };
    if (held)
        return held->value;
    struct system_slot *slot =
        t->without_system ? NULL : system_slot_for(t, host->kind, host->database_id, host->backend);
    return slot && tuning_index_find(slot->index, host->key, &value) ? value : (struct bytes){ 0 };
}

/* Finds the entry that decides a plan: for find, the fastest one; for perf, the one of |solver|. */
static bool find_deciding(enum tuning_kind kind, struct bytes value, struct bytes solver,
                          struct tuning_entry *ret_entry)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_entry entry;
    bool found = false;
    while (tuning_entry_next(kind, &value, &entry, &ignored) == KILN_OK) {
        if (kind == TUNING_PERF ? !bytes_equal(entry.solver, solver)
                                : found && entry.time_ms >= ret_entry->time_ms)
            continue;
        *ret_entry = entry;
        found = true;
    }
    return found;
}

static bool host_prevails(const struct tuning *t, const struct tuning_place *host,
                          const struct tuning_row *row)
{
    const struct tuning_held *held = tuning_table_find(t->table, host);
    for (size_t i = 0; held && i < held->row_count; i++) {
        struct tuning_row into = held->rows[i];
        if (bytes_equal(into.id, row->id))
            return measurement_merge(host->kind, &into, row).result != MERGE_TAKEN;
    }
    return false;
}

static bool changes_plans(struct tuning *t, const struct tuning_place *host,
                          const struct claim *claim, struct tuning_plan_change *change)
{
    struct tuning_entry there;
    bool is_perf = host->kind == TUNING_PERF;
    change->to = is_perf ? claim->row->values : claim->solver;
    if (!find_deciding(host->kind, value_for_others(t, host), claim->solver, &there))
        return true;
    change->from = is_perf ? there.params : there.solver;
    return is_perf ? !bytes_equal(there.params, claim->row->values) &&
                         !host_prevails(t, host, claim->row)
                   : claim->time_ms < there.time_ms && !bytes_equal(there.solver, claim->solver);
}

static void note_change(struct promoting *p, struct tuning_promoter *user,
                        const struct tuning_place *host, const struct claim *claim)
{
    const struct tuning_job_events *events = p->job->events;
    struct tuning_plan_change change = {
        .uid = user->uid, .place = host, .solver = claim->solver, .is_held = !is_believed(p, claim)
    };
    if (!changes_plans(p->job->tuning, host, claim, &change))
        return;
    user->changes++;
    if (events && events->plan_change)
        events->plan_change(events->context, &change);
}

/* Searches linearly, because the list is short. Returns NULL if memory runs out. */
static struct tuning_promoter *user_of(struct promoting *p, uint32_t uid)
{
    for (size_t i = 0; i < p->user_count; i++) {
        if (p->users[i].uid == uid)
            return &p->users[i];
    }
    if (!ARRAY_RESERVE(p->users, p->user_count, p->user_max, 16))
        return NULL;
    p->users[p->user_count] = (struct tuning_promoter){ .uid = uid };
    return &p->users[p->user_count++];
}

static size_t pick_rows(struct promoting *p, struct tuning_promoter *user,
                        const struct tuning_held *held, const struct tuning_place *host,
                        struct tuning_row *rows)
{
    struct claim fastest = { 0 };
    size_t count = 0;
    for (size_t i = 0; i < held->row_count; i++) {
        if (!tuning_row_is_selected(&p->job->selection, &held->rows[i]))
            continue;
        const struct claim claim = claim_of(held, &held->rows[i]);
        user->entries++;
        if (is_believed(p, &claim))
            rows[count++] = held->rows[i];
        if (host->kind == TUNING_PERF)
            note_change(p, user, host, &claim);
        else if (!fastest.row || claim.time_ms < fastest.time_ms)
            fastest = claim;
    }
    if (fastest.row)
        note_change(p, user, host, &fastest);
    user->promoted += count;
    return count;
}

static bool promote_one(struct promoting *p, const struct tuning_held *held)
{
    struct tuning_job *job = p->job;
    struct tuning_place host = held->place;
    struct tuning_promoter *user = user_of(p, held->place.uid);
    host.tier = TUNING_TIER_HOST;
    host.uid = TUNING_NOBODY;
    KILN_AUTO(mem)
    struct tuning_row *rows = malloc(held->row_count * sizeof(*rows));
    if (!rows || !user) {
        p->rc = job_no_memory(p->err);
        return false;
    }
    uint64_t before = user->entries;
    size_t count = pick_rows(p, user, held, &host, rows);
    job->counts.records++;
    job->counts.entries += user->entries - before;
    job->counts.held += user->entries - before - count;
    if (count > 0)
        p->rc = job_merge_record(job, &host, rows, count, p->err);
    return p->rc == KILN_OK;
}

/* Promotes the copy of the record in memory, which is a struct tuning_held, instead of |rows|. */
static bool promote_stored(void *context, const struct tuning_place *place,
                           const struct tuning_row *rows, size_t count)
{
    struct promoting *p = context;
    (void)rows;
    (void)count;
    const struct tuning_held *held = tuning_table_find(p->job->tuning->table, place);
    return !held || !tuning_is_selected(&p->job->selection, held) || promote_one(p, held);
}

static void report_users(const struct promoting *p)
{
    const struct tuning_job_events *events = p->job->events;
    for (size_t i = 0; events && events->promoter && i < p->user_count; i++)
        events->promoter(events->context, &p->users[i]);
}

enum kiln_code job_promote(struct tuning_job *job, struct kiln_err *err)
{
    __attribute__((cleanup(promoting_done))) struct promoting p = { .job = job, .err = err };
    const struct tuning_selection of_users = { .tier = TUNING_TIER_USER };
    struct tuning_walk walk = { .selection = &of_users, .each = collect_claims, .context = &p };
    if (job->promotion.needs_two)
        tuning_walk_step(job->tuning, &walk, UINT64_MAX);
    if (p.count > 0)
        qsort(p.claims, p.count, sizeof(*p.claims), compare_claims);
    if (p.rc)
        return p.rc;
    enum kiln_code rc = tuning_db_each(job->tuning->db, promote_stored, &p, err);
    if (rc || p.rc)
        return rc ? rc : p.rc;
    report_users(&p);
    return KILN_OK;
}

static void leave_changed(struct tuning_job *job, const struct tuning_place *place)
{
    job->counts.conflicts++;
    if (job->events && job->events->conflict)
        job->events->conflict(job->events->context, place,
                              "left as it is, because it was changed after the promotion");
}

static bool restore_one(void *context, const struct tuning_place *place,
                        const struct tuning_row *rows, size_t count, bool is_unchanged)
{
    struct promoting *p = context;
    struct tuning_job *job = p->job;
    if (!is_unchanged) {
        leave_changed(job, place);
        return true;
    }
    job->counts.records++;
    job->counts.removed += count == 0;
    job->counts.replaced += count > 0;
    p->rc = record_list_add(&job->changes, record_create(place, rows, count), p->err);
    return p->rc == KILN_OK;
}

enum kiln_code job_undo_promotion(struct tuning_job *job, struct kiln_err *err)
{
    struct promoting p = { .job = job, .err = err };
    enum kiln_code rc = tuning_db_each_before(job->tuning->db, restore_one, &p, err);
    if (!rc && !p.rc && job->counts.records + job->counts.conflicts == 0)
        rc = kiln_fail(err, KILN_NOT_FOUND,
                       "there is no promotion to undo: only the last one that changed the host's "
                       "records can be undone, and only once");
    return rc ? rc : p.rc;
}
