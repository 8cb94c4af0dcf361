/* SPDX-License-Identifier: MIT */
#include "libclient/conv/tune_share.h"

#include "common/base/clock.h"
#include "libclient/failure.h"

#include <kiln/tuning.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
/* Maximum time to wait for the last shares of other processes. */
#define WAIT_MAX_MS 10000
/* Maximum number of shares that this process holds.  The compilations in flight never need more. */
#define HELD_MAX 64u
/* Maximum size of a space whose search is shared.  No search tries a larger space completely. */
#define CANDIDATES_MAX (1u << 20)
/* Maximum number of leases lost in a row.  After more losses, the process continues alone. */
#define LOSSES_MAX 3u

struct held { /* a share whose trials were not reported yet */
    uint64_t lease, connection;
    uint32_t first, count;
    size_t from, to; /* range of its trials in the tuner's queue */
};

struct sharing {
    struct tuner *tuner;
    /* The client's connection holds the lease, so closing the client ends the lease. */
    struct kiln_client *client;
    struct held held[HELD_MAX];
    unsigned count;
    uint64_t lease;
    /* The candidate after this process's newest share.  If the next share begins elsewhere, another
     * process has taken a share. */
    uint32_t next_first;
    unsigned losses;
    bool has_company, has_reported, is_exhausted, is_complete, is_stopped;
};

bool sharing_has_company(const struct sharing *sharing) { return sharing->has_company; }

bool sharing_is_exhausted(const struct sharing *sharing)
{
    return !sharing->is_stopped && sharing->is_exhausted;
}

bool sharing_is_complete(const struct sharing *sharing) { return sharing->is_complete; }

/* ---- requests ---- */

static enum kiln_code take_share(struct sharing *s, int wait_ms, struct kiln_lease *ret_lease,
                                 struct kiln_err *err)
{
    struct kiln_error e;
    const struct work *w = s->tuner->work;
    const struct kiln_lease_request request = {
        .size = sizeof(request),
        .database_id = kiln_device_database_id(w->device),
        .solver = s->tuner->solver->solution.solver,
        .candidates = s->tuner->solver->solution.candidates,
        .share = KILN_SHARE_MORE,
        .wait_ms = wait_ms,
        .timeout_ms = w->options.timeout_ms,
    };
    *ret_lease = (struct kiln_lease){ .size = sizeof(*ret_lease) };
    int rc = kiln_lease_take(s->client, w->public_problem, &request, ret_lease, &e);
    return error_take(rc, &e, err);
}

static enum kiln_code report_share(struct sharing *s, const struct held *share,
                                   struct kiln_lease *ret_next, struct kiln_err *err)
{
    struct kiln_error e;
    const struct tuner *t = s->tuner;
    const struct search *search = &t->search;
    const struct kiln_lease lease = { .size = sizeof(lease),
                                      .id = share->lease,
                                      .connection = share->connection,
                                      .first = share->first,
                                      .count = share->count };
    struct kiln_measurement m = { .size = sizeof(m), .solver = t->solver->solution.solver };
    struct kiln_recording recording = work_recording(t->work, t->solver->plan, &m);
    recording.measurement_count = 0;
    if (search->best != SIZE_MAX) {
        const struct search_trial *best = &search->trials[search->best];
        m.params = best->config;
        m.samples = best->timing.samples;
        m.median_ms = best->timing.median_ms;
        m.spread_ms = best->timing.spread_ms;
        recording.measurement_count = 1;
    }
    *ret_next = (struct kiln_lease){ .size = sizeof(*ret_next) };
    int rc = kiln_lease_report(s->client, &lease, &recording, ret_next, &e);
    return error_take(rc, &e, err);
}

/* Lets this process search alone after kilnd rejected a report or a lease.  The other processes
 * then do not get the results of this process. */
static enum kiln_code stop_sharing(struct sharing *s, struct kiln_err *why, struct kiln_err *err)
{
    struct work *work = s->tuner->work;
    (void)kiln_while(why, "sharing the search of %s", s->tuner->solver->solution.solver);
    work->result->not_recorded = *why;
    s->is_stopped = true;
    s->has_company = false;
    return tuner_queue_space(s->tuner, err);
}

/* ---- shares ---- */

static bool is_held(const struct sharing *s, uint32_t first)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->held[i].first == first)
            return true;
    }
    return false;
}

/* Queues the share that kilnd's answer grants.  Does nothing if the answer grants none, or if this
 * process already holds this share. */
static enum kiln_code add_share(struct sharing *s, const struct kiln_lease *lease,
                                struct kiln_err *err)
{
    struct tuner *t = s->tuner;
    bool is_granted = lease->state == KILN_LEASE_GRANTED;
    /* While the search goes on, kilnd grants shares of the same lease.  Another lease means that
     * the other processes have just reported the last shares, which ended the search. */
    bool is_another = is_granted && s->lease && lease->id != s->lease;
    bool is_new = is_granted && !is_another && s->count < HELD_MAX && !is_held(s, lease->first);
    s->is_exhausted = !is_new;
    s->is_complete = is_another || lease->state == KILN_LEASE_DONE;
    s->has_company |= lease->state == KILN_LEASE_TAKEN && s->count == 0;
    s->has_company |= s->is_complete && s->lease && s->next_first < t->solver->solution.candidates;
    if (!is_new)
        return KILN_OK;
    s->has_company |= lease->first != s->next_first;
    s->next_first = lease->first + lease->count;
    s->lease = lease->id;
    struct held *share = &s->held[s->count++];
    *share = (struct held){ .lease = lease->id,
                            .connection = lease->connection,
                            .first = lease->first,
                            .count = lease->count,
                            .from = t->queued };
    enum kiln_code rc = tuner_queue_range(t, lease->first, lease->count, err);
    share->to = t->queued;
    return rc;
}

static bool is_tried(const struct tuner *t, const struct held *share)
{
    for (size_t i = share->from; i < share->to; i++) {
        if (t->search.trials[t->queue[i]].place < TRIAL_HELD)
            return false;
    }
    return true;
}

static unsigned find_tried(const struct sharing *s)
{
    unsigned i = 0;
    while (i < s->count && !is_tried(s->tuner, &s->held[i]))
        i++;
    return i;
}

/* Takes another lease after KILN_NOT_FOUND, which means that kilnd was restarted.  Candidates that
 * were tried already are not tried again. */
static enum kiln_code take_new_lease(struct sharing *s, struct kiln_lease *ret_lease,
                                     struct kiln_err *why)
{
    if (++s->losses > LOSSES_MAX)
        return KILN_NOT_FOUND;
    *why = KILN_ERR_INIT;
    s->count = 0;
    s->lease = 0;
    s->next_first = 0;
    return take_share(s, 0, ret_lease, why);
}

static enum kiln_code exchange_share(struct sharing *s, unsigned index, struct kiln_err *why,
                                     struct kiln_err *err)
{
    struct kiln_lease next;
    enum kiln_code rc = report_share(s, &s->held[index], &next, why);
    if (rc == KILN_NOT_FOUND) {
        rc = take_new_lease(s, &next, why);
    } else if (!rc) {
        s->held[index] = s->held[--s->count];
        s->has_reported = true;
        s->losses = 0;
    }
    if (rc)
        return stop_sharing(s, why, err);
    return add_share(s, &next, err);
}

static enum kiln_code take_further(struct sharing *s, int wait_ms, struct kiln_err *err)
{
    struct kiln_lease lease;
    struct kiln_err why = KILN_ERR_INIT;
    if (take_share(s, wait_ms, &lease, &why))
        return stop_sharing(s, &why, err);
    return add_share(s, &lease, err);
}

enum kiln_code sharing_next(struct sharing *sharing, struct kiln_err *err)
{
    struct sharing *s = sharing;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = KILN_OK;
    size_t before = s->tuner->queued;
    while (!rc && !s->is_stopped && s->tuner->queued == before) {
        unsigned tried = find_tried(s);
        if (tried < s->count)
            rc = exchange_share(s, tried, &why, err);
        else if (!s->is_exhausted)
            rc = take_further(s, 0, err);
        else
            break;
    }
    return rc;
}

enum kiln_code sharing_next_or_wait(struct sharing *sharing, struct kiln_err *err)
{
    struct sharing *s = sharing;
    const struct tuner *t = s->tuner;
    size_t before = t->queued;
    enum kiln_code rc = sharing_next(s, err);
    uint64_t now = work_now(t->work);
    if (rc || s->is_stopped || s->is_complete || s->count > 0 || t->queued > before ||
        !s->has_reported || now >= t->until_ns ||
        t->work->pace) /* beside a job, other problems are measured meanwhile */
        return rc;
    uint64_t left_ms = (t->until_ns - now) / MS;
    return take_further(s, left_ms < WAIT_MAX_MS ? (int)left_ms : WAIT_MAX_MS, err);
}

/* Gets the solver's recorded config.  |ret_params| stays empty if there is none. */
static enum kiln_code get_recorded(const struct tuner *t, char ret_params[WORK_CONFIG_MAX],
                                   struct kiln_err *err)
{
    struct kiln_error e;
    struct kiln_tuned *tuned = NULL;
    const struct kiln_tuning_options options = { .size = sizeof(options),
                                                 .database_id =
                                                     kiln_device_database_id(t->work->device),
                                                 .timeout_ms = t->work->options.timeout_ms };
    int rc = kiln_perf_get(t->work->client, t->work->public_problem, &options, &tuned, &e);
    if (rc == KILN_E_NOT_FOUND)
        return KILN_OK;
    enum kiln_code code = error_take(rc, &e, err);
    for (unsigned i = 0; !code && i < kiln_tuned_count(tuned); i++) {
        struct kiln_tuned_entry entry = { .size = sizeof(entry) };
        if (kiln_tuned_entry(tuned, i, &entry, &e) == KILN_E_OK &&
            strcmp(entry.solver, t->solver->solution.solver) == 0)
            snprintf(ret_params, WORK_CONFIG_MAX, "%s", entry.params);
    }
    kiln_tuned_free(tuned);
    return code;
}

static enum kiln_code queue_best(struct tuner *t, struct kiln_err *err)
{
    char params[WORK_CONFIG_MAX] = "";
    enum kiln_code rc = get_recorded(t, params, err);
    return rc || !params[0] ? rc : tuner_queue(t, params, err);
}

bool sharing_is_over(const struct sharing *sharing)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    char params[WORK_CONFIG_MAX] = "";
    const struct tuner *t = sharing->tuner;
    return !t->solver->solution.best_config[0] && get_recorded(t, params, &ignored) == KILN_OK &&
           params[0];
}

enum kiln_code sharing_queue_best(struct sharing *sharing, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (queue_best(sharing->tuner, &why))
        return stop_sharing(sharing, &why, err);
    return KILN_OK;
}

/* ---- begin and end ---- */

static bool is_for_others(const struct tuner *t)
{
    const struct kiln_conv_options *o = &t->work->options;
    return !o->no_record && o->tier == KILN_TUNING_USER && !o->toolchain &&
           kiln_device_database_id(t->work->device)[0] &&
           t->solver->solution.candidates <= CANDIDATES_MAX;
}

enum kiln_code sharing_create(struct tuner *tuner, struct sharing **ret_sharing,
                              struct kiln_err *err)
{
    struct kiln_error e;
    const struct kiln_client *client = tuner->work->client;
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = client->socket_is_found
                                                                    ? NULL
                                                                    : client->socket_path,
                                                 .timeout_ms = client->timeout_ms,
                                                 .fallback = fallback_mode(client->fallback),
                                                 .name = "kiln_conv_tune" };
    if (!is_for_others(tuner))
        return KILN_OK;
    struct sharing *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to share a search");
    s->tuner = tuner;
    enum kiln_code rc = error_take(kiln_client_open(&options, &s->client, &e), &e, err);
    if (rc)
        sharing_destroy(s);
    else
        *ret_sharing = s;
    return rc;
}

void sharing_destroy(struct sharing *sharing)
{
    if (!sharing)
        return;
    kiln_client_close(sharing->client);
    free(sharing);
}
