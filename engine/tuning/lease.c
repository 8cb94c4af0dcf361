/* SPDX-License-Identifier: MIT */
#include "engine/tuning/lease.h"

#include "engine/tuning/record.h"

#include <stdio.h>
#include <string.h>

/* A share takes long enough that asking for the next costs nothing beside it, and is short enough
 * that eight ranks end at about the same time. */
#define SHARE_PARTS 64u
#define SHARE_MIN 4u

struct share {
    struct share *next;
    const void *holder; /* NULL: somebody's who left; to be handed out again */
    uint32_t first, count;
};

struct lease {
    struct lease *next; /* the table's */
    uint64_t id;
    uint32_t uid;
    char database_id[LEASE_NAME_MAX + 1];
    char solver[LEASE_NAME_MAX + 1];
    struct problem problem;
    uint32_t candidates;
    uint32_t handed_out;          /* candidates below this one */
    struct share *shares;         /* owned: handed out and not reported */
    struct lease_waiter *waiting; /* borrowed */
    unsigned waiting_count;
    bool is_done; /* reported in full; lives until lease_finish */
    char best_params[LEASE_PARAMS_MAX + 1];
    struct record *best; /* owned; the measurement of best_params; NULL: none yet */
};

struct lease_table {
    struct lease *leases; /* owned; few at a time, so a list */
    unsigned count;
    uint64_t last_id;
};

enum kiln_code lease_table_create(struct lease_table **ret_table, struct kiln_err *err)
{
    struct lease_table *table = calloc(1, sizeof(*table));
    if (!table)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep leases: out of memory");
    *ret_table = table;
    return KILN_OK;
}

static void lease_free(struct lease *lease)
{
    while (lease->shares) {
        struct share *share = lease->shares;
        lease->shares = share->next;
        free(share);
    }
    record_destroy(lease->best);
    free(lease);
}

void lease_table_destroy(struct lease_table *table)
{
    if (!table)
        return;
    while (table->leases) {
        struct lease *lease = table->leases;
        table->leases = lease->next;
        lease_free(lease);
    }
    free(table);
}

/* ---- finding ---- */

static struct lease *find(const struct lease_table *table, const struct lease_request *request)
{
    for (struct lease *l = table->leases; l; l = l->next) {
        if (l->uid == request->uid && strcmp(l->database_id, request->database_id) == 0 &&
            strcmp(l->solver, request->solver) == 0 && problem_equal(&l->problem, request->problem))
            return l;
    }
    return NULL;
}

static struct lease *find_id(const struct lease_table *table, uint64_t id)
{
    for (struct lease *l = table->leases; l; l = l->next) {
        if (l->id == id)
            return l;
    }
    return NULL;
}

static struct share *share_of(const struct lease *lease, const void *holder)
{
    for (struct share *s = lease->shares; s; s = s->next) {
        if (s->holder == holder)
            return s;
    }
    return NULL;
}

static unsigned count_of_uid(const struct lease_table *table, uint32_t uid)
{
    unsigned count = 0;
    for (const struct lease *l = table->leases; l; l = l->next)
        count += l->uid == uid;
    return count;
}

/* ---- handing out ---- */

static struct lease_best best_of(const struct lease *lease)
{
    if (!lease->best)
        return (struct lease_best){ .params = "" };
    const struct tuning_measurement *m = &lease->best->rows[0].measured;
    return (struct lease_best){ .params = lease->best_params,
                                .median_ms = m->median_ms,
                                .spread_ms = m->spread_ms,
                                .samples = m->samples,
                                .origin = m->origin,
                                .measured_at = m->measured_at };
}

static uint32_t share_size(const struct lease *lease)
{
    uint32_t size = lease->candidates / SHARE_PARTS;
    uint32_t left = lease->candidates - lease->handed_out;
    size = size < SHARE_MIN ? SHARE_MIN : size;
    return size < left ? size : left;
}

/* What a dead holder left first; then what nobody had.  *ret_share stays NULL when none is left. */
static enum kiln_code take_share(struct lease *lease, const void *holder, struct share **ret_share,
                                 struct kiln_err *err)
{
    struct share *share = share_of(lease, NULL);
    bool is_whole = lease->candidates == 0;
    if (!share && (is_whole ? lease->shares != NULL : lease->handed_out == lease->candidates))
        return KILN_OK;
    if (!share) {
        share = calloc(1, sizeof(*share));
        if (!share)
            return kiln_fail(err, KILN_NO_MEMORY, "cannot give a share: out of memory");
        share->first = lease->handed_out;
        share->count = is_whole ? 0 : share_size(lease);
        share->next = lease->shares;
        lease->handed_out += share->count;
        lease->shares = share;
    }
    share->holder = holder;
    *ret_share = share;
    return KILN_OK;
}

static void grant(const struct lease *lease, const struct share *share,
                  struct lease_answer *ret_answer)
{
    *ret_answer = (struct lease_answer){ .state = share ? LEASE_GRANTED : LEASE_TAKEN,
                                         .lease = share ? lease->id : 0,
                                         .first = share ? share->first : 0,
                                         .count = share ? share->count : 0,
                                         .best = best_of(lease) };
}

static enum kiln_code check(const struct lease_request *request, struct kiln_err *err)
{
    if (strlen(request->database_id) > LEASE_NAME_MAX || strlen(request->solver) > LEASE_NAME_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "a lease's database id and solver have at most %u letters",
                         LEASE_NAME_MAX);
    if (request->candidates > LEASE_CANDIDATES_MAX)
        return kiln_fail(err, KILN_INVALID, "a lease has at most %u candidates, not %u",
                         LEASE_CANDIDATES_MAX, (unsigned)request->candidates);
    return KILN_OK;
}

static bool has_holder(const struct lease *lease)
{
    for (const struct share *s = lease->shares; s; s = s->next) {
        if (s->holder)
            return true;
    }
    return false;
}

static void drop(struct lease_table *table, struct lease *lease)
{
    struct lease **at = &table->leases;
    while (*at != lease)
        at = &(*at)->next;
    *at = lease->next;
    table->count--;
    lease_free(lease);
}

/* Those that were kept for a waiter who never asked again. */
static void drop_forsaken(struct lease_table *table)
{
    struct lease *next;
    for (struct lease *l = table->leases; l; l = next) {
        next = l->next;
        if (!l->is_done && !l->waiting && !has_holder(l))
            drop(table, l);
    }
}

static enum kiln_code begin(struct lease_table *table, const struct lease_request *request,
                            struct lease **ret_lease, struct kiln_err *err)
{
    drop_forsaken(table);
    if (table->count >= LEASES_MAX || count_of_uid(table, request->uid) >= LEASES_MAX_UID)
        return kiln_fail(err, KILN_BUSY,
                         "too many problems are being tuned (%u, of one user at most %u): report "
                         "some first, or disconnect what no longer tunes",
                         table->count, LEASES_MAX_UID);
    struct lease *lease = calloc(1, sizeof(*lease));
    if (!lease)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot give a lease: out of memory");
    lease->id = ++table->last_id;
    lease->uid = request->uid;
    snprintf(lease->database_id, sizeof(lease->database_id), "%s", request->database_id);
    snprintf(lease->solver, sizeof(lease->solver), "%s", request->solver);
    lease->problem = *request->problem;
    lease->candidates = request->candidates;
    lease->next = table->leases;
    table->leases = lease;
    table->count++;
    *ret_lease = lease;
    return KILN_OK;
}

enum kiln_code lease_ask(struct lease_table *table, const void *holder,
                         const struct lease_request *request, struct lease_answer *ret_answer,
                         struct kiln_err *err)
{
    enum kiln_code rc = check(request, err);
    if (rc)
        return rc;
    struct lease *lease = find(table, request);
    struct share *share = lease ? share_of(lease, holder) : NULL;
    bool is_first = !lease;
    if (lease && lease->candidates != request->candidates)
        return kiln_fail(err, KILN_INVALID,
                         "'%s' is being tuned with %u candidates, not %u: another version of it?",
                         request->solver, (unsigned)lease->candidates,
                         (unsigned)request->candidates);
    if (lease && lease->is_done) { /* its best is on its way to the disk */
        grant(lease, NULL, ret_answer);
        return KILN_OK;
    }
    if (is_first)
        rc = begin(table, request, &lease, err);
    if (!rc && !share && (is_first || request->share || share_of(lease, NULL)))
        rc = take_share(lease, holder, &share, err);
    if (rc && is_first && lease)
        drop(table, lease);
    if (!rc)
        grant(lease, share, ret_answer);
    return rc;
}

/* ---- waiting ---- */

bool lease_wait(struct lease_table *table, const struct lease_request *request,
                struct lease_waiter *waiter, bool *ret_full)
{
    struct lease *lease = find(table, request);
    *ret_full = lease && lease->waiting_count >= LEASE_WAITERS_MAX;
    if (!lease || *ret_full)
        return false;
    waiter->lease = lease;
    waiter->next = lease->waiting;
    lease->waiting = waiter;
    lease->waiting_count++;
    return true;
}

void lease_unwait(struct lease_waiter *waiter)
{
    if (!waiter->lease)
        return;
    struct lease_waiter **at = &waiter->lease->waiting;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    waiter->lease->waiting_count--;
    waiter->lease = NULL;
    waiter->next = NULL;
}

/* One by one from the head: whoever is told may make others leave. */
static void report(struct lease *lease, unsigned most, enum lease_state state)
{
    for (unsigned i = 0; i < most && lease->waiting; i++) {
        struct lease_waiter *waiter = lease->waiting;
        lease_unwait(waiter);
        waiter->reported(waiter, state);
    }
}

/* ---- reports ---- */

static enum kiln_code note_best(struct lease *lease, const struct lease_best *best,
                                struct kiln_err *err)
{
    if (!best->params[0] ||
        (lease->best && lease->best->rows[0].measured.median_ms <= best->median_ms))
        return KILN_OK;
    const struct tuning_row row = { .measured = { .origin = best->origin,
                                                  .samples = best->samples,
                                                  .median_ms = best->median_ms,
                                                  .spread_ms = best->spread_ms,
                                                  .measured_at = best->measured_at,
                                                  .uid = lease->uid } };
    struct record *copy = record_create(&row.place, &row, 1);
    if (!copy)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep what a share brought: out of memory");
    record_destroy(lease->best);
    lease->best = copy;
    snprintf(lease->best_params, sizeof(lease->best_params), "%s", best->params);
    return KILN_OK;
}

static void end_share(struct lease *lease, struct share *share)
{
    struct share **at = &lease->shares;
    while (*at != share)
        at = &(*at)->next;
    *at = share->next;
    free(share);
}

enum kiln_code lease_report(struct lease_table *table, const void *holder,
                            const struct lease_report *report, struct lease_answer *ret_answer,
                            struct kiln_err *err)
{
    struct lease *lease = find_id(table, report->lease);
    struct share *share = lease && !lease->is_done ? share_of(lease, holder) : NULL;
    struct share *next = NULL;
    if (!share)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "this connection holds no lease %llu: leases end with the connection "
                         "that took them",
                         (unsigned long long)report->lease);
    if (strlen(report->best.params) > LEASE_PARAMS_MAX)
        return kiln_fail(err, KILN_INVALID, "parameters have at most %u letters", LEASE_PARAMS_MAX);
    if (share->first != report->first) {
        grant(lease, share, ret_answer);
        return KILN_OK;
    }
    enum kiln_code rc = note_best(lease, &report->best, err);
    if (rc)
        return rc; /* the share may be reported again */
    end_share(lease, share);
    if (lease->candidates > 0)
        rc = take_share(lease, holder, &next, err);
    if (rc)
        return rc;
    grant(lease, next, ret_answer);
    lease->is_done = !lease->shares;
    if (lease->is_done) {
        ret_answer->state = LEASE_DONE;
        ret_answer->lease = lease->id;
    }
    return KILN_OK;
}

bool lease_show(const struct lease_table *table, uint64_t id, struct lease_request *ret_request)
{
    const struct lease *lease = find_id(table, id);
    if (!lease)
        return false;
    *ret_request = (struct lease_request){ .uid = lease->uid,
                                           .database_id = lease->database_id,
                                           .problem = &lease->problem,
                                           .solver = lease->solver,
                                           .candidates = lease->candidates };
    return true;
}

void lease_finish(struct lease_table *table, uint64_t id)
{
    struct lease *lease = find_id(table, id);
    if (!lease)
        return;
    report(lease, lease->waiting_count, LEASE_DONE);
    drop(table, lease);
}

/* ---- leaving ---- */

/* A lease whose last holder left keeps what was reported as long as somebody waits to go on. */
static void leave(struct lease_table *table, struct lease *lease, const void *holder)
{
    bool returned = false;
    for (struct share *s = lease->shares; s; s = s->next) {
        returned |= s->holder == holder;
        s->holder = s->holder == holder ? NULL : s->holder;
    }
    if (!returned)
        return;
    bool is_waited_for = lease->waiting != NULL;
    report(lease, 1, LEASE_TAKEN);
    if (!has_holder(lease) && !is_waited_for)
        drop(table, lease);
}

void lease_leave(struct lease_table *table, const void *holder)
{
    struct lease *next;
    for (struct lease *l = table->leases; l; l = next) {
        next = l->next;
        if (!l->is_done)
            leave(table, l, holder);
    }
}

unsigned lease_count(const struct lease_table *table) { return table->count; }
