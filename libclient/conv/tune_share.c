/* SPDX-License-Identifier: MIT */
#include "libclient/conv/tune_share.h"

#include "common/base/clock.h"
#include "libclient/failure.h"

#include <kiln/tuning.h>

#include <string.h>

#define MS 1000000ull
/* Maximum wait for the last shares of other processes. */
#define WAIT_MAX_MS 10000

struct sharing {
    struct tuner *tuner;
    struct kiln_client *client; /* owned: its connection, and with it the lease, ends with it */
    struct kiln_lease lease;
    bool has_waited;
};

static bool has_time(const struct tuner *t) { return search_goes_on(&t->search, t->until_ns); }

static enum kiln_code take_share(struct sharing *s, int wait_ms, struct kiln_err *err)
{
    struct kiln_error e;
    const struct work *w = s->tuner->work;
    const struct kiln_lease_request request = {
        .size = sizeof(request),
        .database_id = kiln_device_database_id(w->device),
        .solver = s->tuner->solver->solution.solver,
        .candidates = s->tuner->solver->solution.candidates,
        .share = 1,
        .wait_ms = wait_ms,
        .timeout_ms = w->options.timeout_ms,
    };
    s->lease.size = sizeof(s->lease);
    int rc = kiln_lease_take(s->client, w->public_problem, &request, &s->lease, &e);
    return error_take(rc, &e, err);
}

/* Reports the best of the search so far; kilnd records the best of all reports. */
static enum kiln_code report_best(struct sharing *s, struct kiln_err *err)
{
    struct kiln_error e;
    const struct tuner *t = s->tuner;
    const struct search *search = &t->search;
    struct kiln_measurement m = { .size = sizeof(m), .solver = t->solver->solution.solver };
    struct kiln_recording recording = work_recording(t->work, t->solver->plan, &m);
    recording.measurement_count = 0;
    if (search->best != SIZE_MAX && !t->work->options.no_record) {
        const struct search_trial *best = &search->trials[search->best];
        m.params = best->config;
        m.samples = best->timing.samples;
        m.median_ms = best->timing.median_ms;
        m.spread_ms = best->timing.spread_ms;
        recording.measurement_count = 1;
    }
    int rc = kiln_lease_report(s->client, &s->lease, &recording, &s->lease, &e);
    return error_take(rc, &e, err);
}

/* Whether every queued trial from |from| on was tried. */
static bool is_all_tried(const struct tuner *t, size_t from)
{
    for (size_t i = from; i < t->queued; i++) {
        if (t->search.trials[t->queue[i]].place < TRIAL_HELD)
            return false;
    }
    return true;
}

/* kilnd rejected a report or a lease.  The other processes miss this share's results, but this
 * process has them and continues alone. */
static void stop_sharing(struct sharing *s, struct kiln_err *why)
{
    struct work *work = s->tuner->work;
    (void)kiln_while(why, "sharing the search of %s", s->tuner->solver->solution.solver);
    work->result->not_recorded = *why;
    s->lease.state = KILN_LEASE_DONE;
}

/* Reports the share and takes the next one.  If other processes hold the rest, waits for them. */
static enum kiln_code report_and_take(struct sharing *s, struct kiln_err *err)
{
    const struct tuner *t = s->tuner;
    enum kiln_code rc = report_best(s, err);
    if (rc == KILN_NOT_FOUND) { /* kilnd was restarted */
        *err = KILN_ERR_INIT;
        return take_share(s, 0, err);
    }
    if (!rc && s->lease.state == KILN_LEASE_TAKEN && has_time(t)) {
        uint64_t left_ms = (t->until_ns - clock_monotonic_ns()) / MS;
        s->has_waited = true;
        rc = take_share(s, left_ms < WAIT_MAX_MS ? (int)left_ms : WAIT_MAX_MS, err);
    }
    return rc;
}

/* Reports the share only if all of it was tried; otherwise it goes back to the other processes. */
static enum kiln_code search_share(struct sharing *s, struct kiln_err *err)
{
    struct tuner *t = s->tuner;
    size_t from = t->queued;
    enum kiln_code rc = tuner_queue_range(t, s->lease.first, s->lease.count, err);
    bool is_known = t->queued > from && is_all_tried(t, from);
    if (!rc && s->has_waited && is_known) {
        s->lease.state = KILN_LEASE_DONE;
        return KILN_OK;
    }
    if (!rc)
        rc = search_try(&t->search, t->queue, t->queued, t->until_ns, err);
    if (!rc)
        rc = search_halve(&t->search, t->until_ns, err);
    if (rc || !is_all_tried(t, from))
        return rc;
    struct kiln_err why = KILN_ERR_INIT;
    if (report_and_take(s, &why))
        stop_sharing(s, &why);
    return KILN_OK;
}

/* Queues the best config that any process has recorded. */
static enum kiln_code queue_best_of_all(struct tuner *t, struct kiln_err *err)
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
            code = tuner_queue(t, entry.params, err);
    }
    kiln_tuned_free(tuned);
    return code;
}

static enum kiln_code search_shares(struct sharing *s, struct kiln_err *err)
{
    struct tuner *t = s->tuner;
    enum kiln_code rc = take_share(s, 0, err);
    while (!rc && s->lease.state == KILN_LEASE_GRANTED && has_time(t))
        rc = search_share(s, err);
    return rc;
}

enum kiln_code tuner_search_shared(struct tuner *tuner, struct kiln_err *err)
{
    struct kiln_error e;
    struct kiln_err why = KILN_ERR_INIT;
    struct sharing s = { .tuner = tuner };
    const struct kiln_client *client = tuner->work->client;
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = client->socket_is_found
                                                                    ? NULL
                                                                    : client->socket_path,
                                                 .timeout_ms = client->timeout_ms,
                                                 .fallback = fallback_mode(client->fallback),
                                                 .name = "kiln_conv_tune" };
    enum kiln_code rc = error_take(kiln_client_open(&options, &s.client, &e), &e, err);
    if (!rc)
        rc = search_shares(&s, err);
    kiln_client_close(s.client);
    if (!rc && queue_best_of_all(tuner, &why))
        stop_sharing(&s, &why);
    if (!rc) /* even without a share: then the best known config gets a time */
        rc = search_try(&tuner->search, tuner->queue, tuner->queued, tuner->until_ns, err);
    if (!rc)
        rc = search_halve(&tuner->search, tuner->until_ns, err);
    if (!rc)
        rc = tuner_know_neighbours(tuner, err);
    return rc ? rc : search_refine(&tuner->search, tuner->until_ns, err);
}
