/* SPDX-License-Identifier: MIT */
#include "engine/tuning/lease.h"

#include "common/base/subordinate_uids.h"
#include "engine/tuning/record.h"

#include <stdio.h>
#include <string.h>

/* Size of a share: 1/SHARE_PARTS of a lease's candidates, but at least SHARE_MIN candidates. A
 * client measures one share, reports it, and gets the next one. Larger shares mean fewer requests;
 * with smaller shares, the eight ranks of a job end at about the same time. */
#define SHARE_PARTS 64u
#define SHARE_MIN 4u

struct share {
    struct list_link link;
    const void *holder; /* NULL: the holder left, so the share can be granted again */
    uint32_t first, count;
};

struct lease {
    struct list_link link;
    uint64_t id;
    uint32_t uid;
    char database_id[LEASE_NAME_MAX + 1];
    char solver[LEASE_NAME_MAX + 1];
    struct problem problem;
    uint32_t candidates;
    uint32_t granted;   /* candidates below this number are in |shares| or were reported */
    struct list shares; /* owned struct share: shares that were granted and not yet reported */
    struct list waiting;
    unsigned waiting_count;
    bool is_done; /* every candidate was reported; the lease lives until lease_finish */
    char best_params[LEASE_PARAMS_MAX + 1];
    struct record *best; /* owned; the measurement of best_params; may be NULL */
};

struct lease_table {
    struct list leases;
    unsigned count;
    uint64_t last_id;
};

enum kiln_code lease_table_create(struct lease_table **ret_table, struct kiln_err *err)
{
    struct lease_table *table = calloc(1, sizeof(*table));
    if (!table)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot create the lease table: out of memory");
    list_init(&table->leases);
    *ret_table = table;
    return KILN_OK;
}

static void end_share(struct share *share)
{
    list_remove(&share->link);
    free(share);
}

static void drop_lease(struct lease_table *table, struct lease *lease)
{
    list_remove(&lease->link);
    table->count--;
    LIST_EACH (&lease->shares, struct share, link, share)
        end_share(share);
    record_destroy(lease->best);
    free(lease);
}

void lease_table_destroy(struct lease_table *table)
{
    if (!table)
        return;
    LIST_EACH (&table->leases, struct lease, link, lease)
        drop_lease(table, lease);
    free(table);
}

static struct lease *find_lease(const struct lease_table *table,
                                const struct lease_request *request)
{
    LIST_EACH (&table->leases, struct lease, link, l) {
        if (l->uid == request->uid && strcmp(l->database_id, request->database_id) == 0 &&
            strcmp(l->solver, request->solver) == 0 && problem_equal(&l->problem, request->problem))
            return l;
    }
    return NULL;
}

static struct lease *find_lease_by_id(const struct lease_table *table, uint64_t id)
{
    LIST_EACH (&table->leases, struct lease, link, l) {
        if (l->id == id)
            return l;
    }
    return NULL;
}

static struct share *share_of(const struct lease *lease, const void *holder)
{
    LIST_EACH (&lease->shares, struct share, link, s) {
        if (s->holder == holder)
            return s;
    }
    return NULL;
}

/* Returns the holder's share that begins with |first|, or else another share of the holder, or
 * NULL. */
static struct share *share_at(const struct lease *lease, const void *holder, uint32_t first)
{
    LIST_EACH (&lease->shares, struct share, link, s) {
        if (s->holder == holder && s->first == first)
            return s;
    }
    return share_of(lease, holder);
}

static unsigned count_of_uid(const struct lease_table *table, uint32_t uid)
{
    unsigned count = 0;
    LIST_EACH (&table->leases, struct lease, link, l)
        count += is_one_user(l->uid, uid);
    return count;
}

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
    uint32_t left = lease->candidates - lease->granted;
    size = size < SHARE_MIN ? SHARE_MIN : size;
    return size < left ? size : left;
}

/* Gives |holder| a share, preferably one whose previous holder left. If no share is left,
 * *ret_share stays NULL. */
static enum kiln_code take_share(struct lease *lease, const void *holder, struct share **ret_share,
                                 struct kiln_err *err)
{
    struct share *share = share_of(lease, NULL);
    bool is_whole = lease->candidates == 0;
    if (!share && (is_whole ? !list_is_empty(&lease->shares) : lease->granted == lease->candidates))
        return KILN_OK;
    if (!share) {
        share = calloc(1, sizeof(*share));
        if (!share)
            return kiln_fail(err, KILN_NO_MEMORY, "cannot grant a share: out of memory");
        share->first = lease->granted;
        share->count = is_whole ? 0 : share_size(lease);
        lease->granted += share->count;
        list_prepend(&lease->shares, &share->link);
    }
    share->holder = holder;
    *ret_share = share;
    return KILN_OK;
}

static void make_answer(const struct lease *lease, const struct share *share,
                        struct lease_answer *ret_answer)
{
    *ret_answer = (struct lease_answer){ .state = share ? LEASE_GRANTED : LEASE_TAKEN,
                                         .lease = share ? lease->id : 0,
                                         .first = share ? share->first : 0,
                                         .count = share ? share->count : 0,
                                         .best = best_of(lease) };
}

static enum kiln_code check_request(const struct lease_request *request, struct kiln_err *err)
{
    if (strlen(request->database_id) > LEASE_NAME_MAX || strlen(request->solver) > LEASE_NAME_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "a lease's database id and solver have at most %u characters",
                         LEASE_NAME_MAX);
    if (request->candidates > LEASE_CANDIDATES_MAX)
        return kiln_fail(err, KILN_INVALID, "a lease has at most %u candidates, not %u",
                         LEASE_CANDIDATES_MAX, (unsigned)request->candidates);
    return KILN_OK;
}

static bool has_holder(const struct lease *lease)
{
    LIST_EACH (&lease->shares, struct share, link, s) {
        if (s->holder)
            return true;
    }
    return false;
}

/* Drops leases without a holder and without a waiter. Such a lease was kept for a waiter that was
 * notified but never asked again. */
static void drop_abandoned_leases(struct lease_table *table)
{
    LIST_EACH (&table->leases, struct lease, link, l) {
        if (!l->is_done && list_is_empty(&l->waiting) && !has_holder(l))
            drop_lease(table, l);
    }
}

static enum kiln_code create_lease(struct lease_table *table, const struct lease_request *request,
                                   struct lease **ret_lease, struct kiln_err *err)
{
    drop_abandoned_leases(table);
    if (table->count >= LEASES_MAX || count_of_uid(table, request->uid) >= LEASES_MAX_UID)
        return kiln_fail(err, KILN_BUSY,
                         "too many problems are being tuned (%u in all; at most %u for one user): "
                         "report some first, or disconnect clients that no longer tune",
                         table->count, LEASES_MAX_UID);
    struct lease *lease = calloc(1, sizeof(*lease));
    if (!lease)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot create a lease: out of memory");
    lease->id = ++table->last_id;
    lease->uid = request->uid;
    snprintf(lease->database_id, sizeof(lease->database_id), "%s", request->database_id);
    snprintf(lease->solver, sizeof(lease->solver), "%s", request->solver);
    lease->problem = *request->problem;
    lease->candidates = request->candidates;
    list_init(&lease->shares);
    list_init(&lease->waiting);
    list_prepend(&table->leases, &lease->link);
    table->count++;
    *ret_lease = lease;
    return KILN_OK;
}

enum kiln_code lease_ask(struct lease_table *table, const void *holder,
                         const struct lease_request *request, struct lease_answer *ret_answer,
                         struct kiln_err *err)
{
    enum kiln_code rc = check_request(request, err);
    if (rc)
        return rc;
    struct lease *lease = find_lease(table, request);
    struct share *share = lease && !request->more ? share_of(lease, holder) : NULL;
    bool is_first = !lease;
    if (lease && lease->candidates != request->candidates)
        return kiln_fail(
            err, KILN_INVALID,
            "'%s' is being tuned with %u candidates, not %u, perhaps by another version",
            request->solver, (unsigned)lease->candidates, (unsigned)request->candidates);
    if (lease && lease->is_done) {
        make_answer(lease, NULL, ret_answer);
        return KILN_OK;
    }
    if (is_first)
        rc = create_lease(table, request, &lease, err);
    if (!rc && !share && (is_first || request->share || share_of(lease, NULL)))
        rc = take_share(lease, holder, &share, err);
    if (rc && is_first && lease)
        drop_lease(table, lease);
    if (!rc)
        make_answer(lease, share, ret_answer);
    return rc;
}

bool lease_wait(struct lease_table *table, const struct lease_request *request,
                struct lease_waiter *waiter, bool *ret_full)
{
    struct lease *lease = find_lease(table, request);
    *ret_full = lease && lease->waiting_count >= LEASE_WAITERS_MAX;
    if (!lease || *ret_full)
        return false;
    waiter->lease = lease;
    list_append(&lease->waiting, &waiter->link);
    lease->waiting_count++;
    return true;
}

void lease_unwait(struct lease_waiter *waiter)
{
    if (!waiter->lease)
        return;
    list_remove(&waiter->link);
    waiter->lease->waiting_count--;
    waiter->lease = NULL;
}

/* Takes the first waiter each time, because a callback may remove others. */
static void notify_waiters(struct lease *lease, unsigned max, enum lease_state state)
{
    for (unsigned i = 0; i < max && !list_is_empty(&lease->waiting); i++) {
        struct lease_waiter *waiter = LIST_FIRST(&lease->waiting, struct lease_waiter, link);
        lease_unwait(waiter);
        waiter->reported(waiter, state);
    }
}

static enum kiln_code keep_best(struct lease *lease, const struct lease_best *best,
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
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the result of a share: out of memory");
    record_destroy(lease->best);
    lease->best = copy;
    snprintf(lease->best_params, sizeof(lease->best_params), "%s", best->params);
    return KILN_OK;
}

enum kiln_code lease_report(struct lease_table *table, const void *holder,
                            const struct lease_report *report, struct lease_answer *ret_answer,
                            struct kiln_err *err)
{
    struct lease *lease = find_lease_by_id(table, report->lease);
    struct share *share = lease && !lease->is_done ? share_at(lease, holder, report->first) : NULL;
    struct share *next = NULL;
    if (!share)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "this connection has no share of lease %llu: shares end with the "
                         "connection that took them",
                         (unsigned long long)report->lease);
    if (strlen(report->best.params) > LEASE_PARAMS_MAX)
        return kiln_fail(err, KILN_INVALID, "parameters have at most %u characters",
                         LEASE_PARAMS_MAX);
    if (share->first != report->first) {
        make_answer(lease, share, ret_answer);
        return KILN_OK;
    }
    enum kiln_code rc = keep_best(lease, &report->best, err);
    if (rc)
        return rc;
    end_share(share);
    if (lease->candidates > 0)
        rc = take_share(lease, holder, &next, err);
    if (rc)
        return rc;
    make_answer(lease, next, ret_answer);
    lease->is_done = list_is_empty(&lease->shares);
    if (lease->is_done) {
        ret_answer->state = LEASE_DONE;
        ret_answer->lease = lease->id;
    }
    return KILN_OK;
}

bool lease_show(const struct lease_table *table, uint64_t id, struct lease_request *ret_request)
{
    const struct lease *lease = find_lease_by_id(table, id);
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
    struct lease *lease = find_lease_by_id(table, id);
    if (!lease)
        return;
    notify_waiters(lease, lease->waiting_count, LEASE_DONE);
    drop_lease(table, lease);
}

/* Makes the holder's shares available to other clients. A lease without holders stays while a
 * client waits: this client is notified, and can continue the lease. */
static void leave_lease(struct lease_table *table, struct lease *lease, const void *holder)
{
    bool returned = false;
    LIST_EACH (&lease->shares, struct share, link, s) {
        returned |= s->holder == holder;
        s->holder = s->holder == holder ? NULL : s->holder;
    }
    if (!returned)
        return;
    bool is_waited_for = !list_is_empty(&lease->waiting);
    notify_waiters(lease, 1, LEASE_TAKEN);
    if (!has_holder(lease) && !is_waited_for)
        drop_lease(table, lease);
}

void lease_leave(struct lease_table *table, const void *holder)
{
    LIST_EACH (&table->leases, struct lease, link, l) {
        if (!l->is_done)
            leave_lease(table, l, holder);
    }
}

unsigned lease_count(const struct lease_table *table) { return table->count; }
