/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "engine/service/requests/leases.h"
#include "engine/service/tuning/tuning_put.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_validation.h"

#include <string.h>

/* Maximum time that a request waits. A client that still wants the lease then asks again. */
#define WAIT_MAX_MS 600000u

static void send_leased(struct engine *e, struct caller *caller, uint64_t request_id,
                        const struct lease_answer *answer)
{
    static const uint8_t results[] = {
        [LEASE_GRANTED] = LEASE_RESULT_GRANTED,
        [LEASE_TAKEN] = LEASE_RESULT_TAKEN,
        [LEASE_DONE] = LEASE_RESULT_DONE,
    };
    const char *params = answer->best.params ? answer->best.params : "";
    const struct message_leased m = {
        .state = results[answer->state],
        .lease = answer->lease,
        .first = answer->first,
        .count = answer->count,
        .best_ms = tuning_bits_of(*params ? answer->best.median_ms : 0),
        .best_params = bytes_of_text(params),
    };
    e->stats.tuning_leases += answer->state == LEASE_GRANTED;
    buffer_clear(&e->body);
    message_leased_write(&e->body, &m);
    service_reply_body(e, caller, MESSAGE_leased, request_id);
}

struct deferred_lease {
    struct deferred base;
    struct lease_waiter place;
    struct lease_request request;
    char database_id[DATABASE_ID_MAX], solver[LEASE_NAME_MAX + 1];
    struct problem problem;
    uint64_t until_ns;
    bool asks_again;
};

static void release_lease(struct deferred *d)
{
    lease_unwait(&((struct deferred_lease *)d)->place);
}

static const struct deferred_kind lease_kind = { .size = sizeof(struct deferred_lease),
                                                 .release = release_lease };

static void grant_lease(struct deferred_lease *lease, const struct lease_answer *answer)
{
    struct deferred *d = &lease->base;
    struct caller *caller = d->caller;
    deferred_leave(d);
    send_leased(d->engine, caller, d->request_id, answer);
    deferred_destroy(d);
}

/* Only notes that the request must ask again, because a callback of the lease table must not call
 * the lease table. */
static void on_lease_change(struct lease_waiter *place, enum lease_state state)
{
    struct deferred_lease *lease =
        (struct deferred_lease *)(void *)((char *)place - offsetof(struct deferred_lease, place));
    const struct lease_answer done = { .state = LEASE_DONE };
    if (state == LEASE_DONE)
        grant_lease(lease, &done);
    else
        lease->asks_again = true;
}

static enum kiln_code join_waiters(struct deferred_lease *lease, bool *ret_waits,
                                   struct kiln_err *err)
{
    bool is_full = false;
    *ret_waits =
        lease_wait(tuning_leases(lease->base.engine), &lease->request, &lease->place, &is_full);
    if (is_full)
        return kiln_fail(err, KILN_BUSY,
                         "%u requests wait for this lease already, which is the maximum: use the "
                         "best known result, or try again later",
                         LEASE_WAITERS_MAX);
    return KILN_OK;
}

static void retry_lease(struct deferred_lease *lease, bool is_last)
{
    struct kiln_err why = KILN_ERR_INIT;
    struct lease_answer answer;
    bool waits = false;
    struct engine *e = lease->base.engine;
    lease->asks_again = false;
    lease_unwait(&lease->place);
    enum kiln_code rc =
        lease_ask(tuning_leases(e), lease->base.caller, &lease->request, &answer, &why);
    if (!rc && answer.state == LEASE_TAKEN && !is_last)
        rc = join_waiters(lease, &waits, &why);
    if (rc)
        deferred_fail(&lease->base, &why, NULL);
    else if (!waits)
        grant_lease(lease, &answer);
}

static void retry_leases(struct engine *e)
{
    LIST_EACH (&requests_group(e->requests, GROUP_LEASE_WAITS)->members, struct deferred_lease,
               base.member, lease) {
        if (lease->asks_again)
            retry_lease(lease, /* is_last= */ false);
    }
}

void leases_leave(struct engine *e, const struct caller *caller)
{
    lease_leave(tuning_leases(e), caller);
    retry_leases(e);
}

void leases_tick(struct engine *e)
{
    uint64_t now = clock_monotonic_ns();
    LIST_EACH (&requests_group(e->requests, GROUP_LEASE_WAITS)->members, struct deferred_lease,
               base.member, lease) {
        if (now >= lease->until_ns)
            retry_lease(lease, /* is_last= */ true);
    }
}

void leases_drain(struct engine *e)
{
    struct kiln_err why = KILN_ERR_INIT;
    kiln_fail(&why, KILN_UNAVAILABLE, TUNING_STOPPING);
    LIST_EACH (&requests_group(e->requests, GROUP_LEASE_WAITS)->members, struct deferred, member,
               lease)
        deferred_fail(lease, &why, NULL);
}

static enum kiln_code read_lease(const struct message_tuning_lease *m, const struct caller *caller,
                                 struct deferred_lease *lease, struct kiln_err *err)
{
    char key[PROBLEM_KEY_MAX];
    struct bytes ignored;
    enum kiln_code rc = tuning_database_id_take(m->database_id, lease->database_id, err);
    if (!rc)
        rc = tuning_solver_check(m->solver, err);
    if (!rc)
        rc = tuning_text_take("solver", m->solver, sizeof(lease->solver), lease->solver, err);
    if (!rc)
        rc = problem_check(&m->problem, err);
    if (!rc) /* the result can only be recorded if the problem has a key */
        rc = tuning_key_of(TUNING_PERF, &m->problem, key, &ignored, err);
    lease->problem = m->problem;
    lease->request = (struct lease_request){ .uid = (uint32_t)caller->uid,
                                             .database_id = lease->database_id,
                                             .problem = &lease->problem,
                                             .solver = lease->solver,
                                             .candidates = m->candidates,
                                             .share = m->flags & LEASE_SHARE,
                                             .more = m->flags & LEASE_MORE };
    return rc;
}

static enum kiln_code wait_for_lease(struct deferred_lease *lease, uint32_t wait_ms,
                                     bool *ret_waits, struct kiln_err *err)
{
    lease->place.reported = on_lease_change;
    lease->until_ns =
        clock_monotonic_ns() + 1000000ull * (wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS);
    enum kiln_code rc = deferred_join(
        &lease->base, requests_group(lease->base.engine->requests, GROUP_LEASE_WAITS), err);
    if (!rc)
        rc = join_waiters(lease, ret_waits, err);
    if (!rc && *ret_waits)
        deferred_wait(&lease->base);
    return rc;
}

enum kiln_code handle_tuning_lease(struct engine *e, struct caller *caller,
                                   const struct frame_header *header, struct bytes body,
                                   struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_tuning_lease m = message_tuning_lease_read(&r);
    struct lease_answer answer;
    bool waits = false;
    enum kiln_code rc = message_body_check(&r, MESSAGE_tuning_lease, err);
    if (rc)
        return rc;
    struct deferred_lease *lease = deferred_create(&lease_kind, e, caller, header->request_id, err);
    if (!lease)
        return err->code;
    rc = read_lease(&m, caller, lease, err);
    if (!rc)
        rc = tuning_ready(e, err);
    if (!rc)
        rc = lease_ask(tuning_leases(e), caller, &lease->request, &answer, err);
    if (!rc && answer.state == LEASE_TAKEN && (m.flags & LEASE_WAIT) && m.wait_ms > 0)
        rc = wait_for_lease(lease, m.wait_ms, &waits, err);
    if (!rc && !waits)
        send_leased(e, caller, header->request_id, &answer);
    if (!waits)
        deferred_destroy(&lease->base);
    return rc;
}

struct report {
    char params[LEASE_PARAMS_MAX + 1];
    struct lease_report share;
    struct origin_texts texts;
};

static enum kiln_code read_measurement(const struct message_tuning_report *m, struct report *x,
                                       struct kiln_err *err)
{
    if (m->params.size == 0)
        return KILN_OK;
    enum kiln_code rc = tuning_word_check("parameters", m->params, /* commas= */ true, err);
    if (!rc)
        rc = tuning_text_take("parameters", m->params, sizeof(x->params), x->params, err);
    if (!rc && m->samples == 0)
        rc = kiln_fail(
            err, KILN_INVALID,
            "the number of samples is 0: give no parameters for a share that did not run");
    if (!rc)
        rc = tuning_time_take("median", m->median_ms, &x->share.best.median_ms, err);
    if (!rc)
        rc = tuning_time_take("spread", m->spread_ms, &x->share.best.spread_ms, err);
    x->share.best.samples = m->samples;
    return rc;
}

static enum kiln_code read_report(const struct message_tuning_report *m, struct report *x,
                                  struct kiln_err *err)
{
    const struct origin_fields fields = { m->device_uuid, m->device, m->driver, m->toolchain,
                                          m->library };
    x->share.best.params = x->params;
    x->share.best.measured_at = clock_wall_s();
    enum kiln_code rc = read_measurement(m, x, err);
    return rc ? rc
              : tuning_origin_take(&fields, m->clock_mhz, &x->texts, &x->share.best.origin, err);
}

static void finish_lease(struct tuning_put *put)
{
    lease_finish(tuning_leases(put->base.engine), put->lease);
}

static void reply_to_last_report(struct tuning_put *put, struct caller *caller)
{
    const struct tuning_row *row = &put->record->rows[0];
    KILN_AUTO(mem) char *params = bytes_to_text(row->values);
    const struct lease_answer answer = { .state = LEASE_DONE,
                                         .lease = put->lease,
                                         .best = { .params = params,
                                                   .median_ms = row->measured.median_ms } };
    send_leased(put->base.engine, caller, put->base.request_id, &answer);
}

static const struct tuning_put_kind best_kind = { .stays = true,
                                                  .ended = finish_lease,
                                                  .reply = reply_to_last_report };

/* Begins to write the record of the best config. The requests that wait for the lease are notified
 * when the record is written, not before. */
static enum kiln_code record_best(struct engine *e, struct caller *caller, uint64_t request_id,
                                  const struct lease_answer *answer, struct kiln_err *err)
{
    struct lease_request what;
    const struct lease_best *best = &answer->best;
    struct tuning_row row = { .measured = { .origin = best->origin,
                                            .samples = best->samples,
                                            .median_ms = best->median_ms,
                                            .spread_ms = best->spread_ms,
                                            .measured_at = best->measured_at } };
    char key[PROBLEM_KEY_MAX];
    if (!lease_show(tuning_leases(e), answer->lease, &what))
        return kiln_fail(err, KILN_NOT_FOUND, "the lease has ended");
    row.place = (struct tuning_place){ .tier = TUNING_TIER_USER,
                                       .uid = what.uid,
                                       .kind = TUNING_PERF,
                                       .database_id = what.database_id,
                                       .backend = "" };
    row.id = bytes_of_text(what.solver);
    row.values = bytes_of_text(best->params);
    row.measured.uid = what.uid;
    enum kiln_code rc = tuning_key_of(TUNING_PERF, what.problem, key, &row.place.key, err);
    const struct tuning_putting putting = {
        .kind = &best_kind, .rows = &row, .count = 1, .lease = answer->lease
    };
    return rc ? rc : tuning_put_begin(e, caller, request_id, &putting, err);
}

enum kiln_code handle_tuning_report(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_tuning_report m = message_tuning_report_read(&r);
    struct report x = { .share = { .lease = m.lease, .first = m.first } };
    struct lease_answer answer;
    enum kiln_code rc = message_body_check(&r, MESSAGE_tuning_report, err);
    if (!rc)
        rc = read_report(&m, &x, err);
    if (!rc)
        rc = lease_report(tuning_leases(e), caller, &x.share, &answer, err);
    if (rc)
        return rc;
    uint64_t lease = answer.lease;
    if (answer.state == LEASE_DONE && answer.best.params[0]) {
        rc = record_best(e, caller, header->request_id, &answer, err);
        if (rc)
            lease_finish(tuning_leases(e), lease);
        return rc;
    }
    send_leased(e, caller, header->request_id, &answer);
    if (answer.state == LEASE_DONE)
        lease_finish(tuning_leases(e), lease);
    return KILN_OK;
}
