/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "libclient/client.h"
#include "libclient/plans/plan.h"
#include "libclient/plans/problem.h"
#include "libclient/real.h"
#include "libclient/sized.h"
#include "libclient/tuning/recording.h"

#include <poll.h>

/* Pause before this process asks again for a lease that is TAKEN.  Normally kilnd itself waits
 * before it answers TAKEN, so the pause matters only if kilnd did not wait. */
#define PAUSE_MS 10
/* kilnd stops waiting before the call's time is over, so that its answer arrives in time.  The
 * difference is 1 / RETURN_PART of the time, but at most RETURN_MAX_MS. */
#define RETURN_PART 4u
#define RETURN_MAX_MS 500u
#define MS 1000000ull

_Static_assert((int)KILN_LEASE_GRANTED == (int)LEASE_RESULT_GRANTED &&
                   (int)KILN_LEASE_TAKEN == (int)LEASE_RESULT_TAKEN &&
                   (int)KILN_LEASE_DONE == (int)LEASE_RESULT_DONE,
               "<kiln/tuning.h> differs from common/protocol/messages.h");

/* ---- replies ---- */

static bool is_valid_share(const struct message_leased *m)
{
    return m->first <= UINT32_MAX - m->count;
}

static bool is_valid_reply(const struct message_leased *m, const struct kiln_lease *lease)
{
    bool is_granted = m->state == LEASE_RESULT_GRANTED;
    return m->state <= LEASE_RESULT_DONE && (!is_granted || is_valid_share(m)) &&
           real_is_fine(real_of_bits(m->best_ms), 0) &&
           m->best_params.size < sizeof(lease->best_params);
}

static void copy_params(struct bytes params, struct kiln_lease *lease)
{
    for (size_t i = 0; i < params.size; i++) {
        uint8_t c = params.data[i];
        lease->best_params[i] = (char)(c < ' ' || c > '~' ? ' ' : c);
    }
    lease->best_params[params.size] = '\0';
}

static enum kiln_code accept_leased(struct request *request, const struct reply *reply,
                                    struct failure *failure)
{
    struct kiln_lease *lease = request->context;
    struct reader r = reader_of(reply->body);
    struct message_leased m = message_leased_read(&r);
    if (reply->header->type != MESSAGE_leased || r.failed || r.at != r.end ||
        (reply->header->flags & FRAME_MORE) || !is_valid_reply(&m, lease))
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd's answer about a lease is damaged");
    *lease = (struct kiln_lease){ .state = m.state,
                                  .id = m.lease,
                                  .connection = reply->connection,
                                  .first = m.first,
                                  .count = m.count,
                                  .best_ms = real_of_bits(m.best_ms) };
    copy_params(m.best_params, lease);
    return KILN_OK;
}

static enum kiln_code call_kilnd(struct kiln_client *client, struct request *rq,
                                 uint64_t deadline_ns, struct failure *failure)
{
    enum kiln_code rc = multiplexer_call(client->multiplexer, rq, deadline_ns);
    failure_done(failure);
    *failure = rq->failure;
    return rc;
}

static void copy_lease(const struct kiln_lease *lease, struct kiln_lease *ret_lease)
{
    size_t size = ret_lease->size;
    if (lease->state == KILN_LEASE_GRANTED)
        memcpy(ret_lease, lease, size < sizeof(*lease) ? size : sizeof(*lease));
    ret_lease->size = size;
    ret_lease->state = lease->state;
}

static bool is_lease(const struct kiln_lease *lease)
{
    return lease && sized_is_fine(lease->size, SIZED_TO(struct kiln_lease, best_params));
}

/* ---- taking a lease ---- */

static enum kiln_code read_request(const struct kiln_lease_request *given,
                                   struct kiln_lease_request *ret_request, struct kiln_err *err)
{
    struct kiln_lease_request r;
    if (!given || !sized_is_fine(given->size, SIZED_TO(struct kiln_lease_request, wait_ms)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_lease_request.size is not set: give it sizeof the struct");
    sized_copy(&r, sizeof(r), given, given->size);
    struct bytes id = bytes_of_text(r.database_id);
    if (id.size == 0 || id.size > TUNING_WORD_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "kiln_lease_request.database_id has %zu bytes: "
                         "use kiln_device_database_id() of the device",
                         id.size);
    if (r.wait_ms < 0)
        return kiln_fail(err, KILN_INVALID, "kiln_lease_request.wait_ms is negative: %d",
                         r.wait_ms);
    enum kiln_code rc = tuning_solver_check(bytes_of_text(r.solver), err);
    if (!rc)
        *ret_request = r;
    return rc;
}

static uint64_t wait_end(const struct kiln_lease_request *request, uint64_t deadline_ns)
{
    uint64_t now = clock_monotonic_ns();
    uint64_t until = now + (uint64_t)request->wait_ms * MS;
    uint64_t kept = deadline_ns > now ? (deadline_ns - now) / RETURN_PART : 0;
    uint64_t latest = deadline_ns - (kept < RETURN_MAX_MS * MS ? kept : RETURN_MAX_MS * MS);
    return until < latest ? until : latest;
}

static uint32_t ms_until(uint64_t when_ns)
{
    uint64_t now = clock_monotonic_ns();
    return when_ns > now ? (uint32_t)((when_ns - now) / MS)
                         : 0; /* fits, because |when_ns| was computed from an int of milliseconds */
}

struct taking {
    const struct problem *problem;
    const struct kiln_lease_request *request;
    uint64_t deadline_ns;
    struct kiln_lease lease;
};

static enum kiln_code request_lease(struct kiln_client *client, struct taking *t, uint32_t wait_ms,
                                    struct failure *failure)
{
    const struct kiln_lease_request *request = t->request;
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    struct message_tuning_lease m = {
        .problem = *t->problem,
        .database_id = bytes_of_text(request->database_id),
        .solver = bytes_of_text(request->solver),
        .candidates = request->candidates,
        .flags = (uint8_t)((request->share ? LEASE_SHARE : 0) | (wait_ms ? LEASE_WAIT : 0) |
                           (request->share == KILN_SHARE_MORE ? LEASE_MORE : 0)),
        .wait_ms = wait_ms,
    };
    message_tuning_lease_write(&frame, &m);
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct request rq = { .type = MESSAGE_tuning_lease,
                          .frame = &frame,
                          .waiter = &waiter,
                          .accept = accept_leased,
                          .context = &t->lease };
    enum kiln_code rc = call_kilnd(client, &rq, t->deadline_ns, failure);
    uint32_t end = rc ? 0 : t->lease.first + t->lease.count;
    if (!rc && t->lease.state == KILN_LEASE_GRANTED && end > request->candidates)
        rc = kiln_fail(&failure->err, KILN_CORRUPT,
                       "kilnd leases candidates %u to %u of %u: use matching versions of libkiln "
                       "and kilnd",
                       t->lease.first, end, request->candidates);
    return rc;
}

/* While another process has the lease, requests it again until the time to wait ends. */
static enum kiln_code take_lease(struct kiln_client *client, struct taking *t,
                                 struct failure *failure)
{
    uint64_t until_ns = wait_end(t->request, t->deadline_ns);
    for (;;) {
        uint32_t wait_ms = ms_until(until_ns);
        enum kiln_code rc = request_lease(client, t, wait_ms, failure);
        if (rc || t->lease.state != KILN_LEASE_TAKEN || wait_ms == 0)
            return rc;
        (void)poll(NULL, 0, PAUSE_MS);
    }
}

int kiln_lease_take(struct kiln_client *client, const struct kiln_problem *problem,
                    const struct kiln_lease_request *request, struct kiln_lease *ret_lease,
                    struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    struct kiln_lease_request r = { .size = 0 };
    struct problem p;
    struct taking taking = { .problem = &p, .request = &r };
    if (!is_lease(ret_lease))
        return error_argument(err,
                              "kiln_lease_take needs a pointer for the lease, with size set to "
                              "sizeof the struct");
    enum kiln_code rc = read_request(request, &r, &f.err);
    if (!rc)
        rc = client_enter(client, r.timeout_ms, &taking.deadline_ns, &f.err);
    if (!rc)
        rc = problem_from_public(problem, &p, &f.err);
    if (!rc) {
        rc = take_lease(client, &taking, &f);
        plans_forget(client, &p); /* other processes may have recorded something since */
    }
    if (!rc)
        copy_lease(&taking.lease, ret_lease);
    return failure_return(&f, rc, err);
}

/* ---- reporting ---- */

static enum kiln_code read_best(const struct kiln_recording *r,
                                struct message_tuning_report *ret_report, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    struct message_tuning_entry best = { .samples = 0 };
    if (r->measurement_count > 1)
        rc = kiln_fail(err, KILN_INVALID, "a share has one best measurement, not %zu",
                       r->measurement_count);
    if (!rc && r->measurement_count == 1)
        rc = recording_measurement(r, TUNING_PERF, 0, &best, err);
    if (!rc && r->measurement_count == 1 && best.params.size == 0)
        rc = kiln_fail(err, KILN_INVALID,
                       "the best of a share has no parameters: give no measurement where none ran");
    if (rc)
        return rc;
    ret_report->params = best.params;
    ret_report->median_ms = best.median_ms;
    ret_report->spread_ms = best.spread_ms;
    ret_report->samples = best.samples;
    ret_report->device_uuid = bytes_of_text(r->device_uuid);
    ret_report->device = bytes_of_text(r->device);
    ret_report->driver = bytes_of_text(r->driver);
    ret_report->toolchain = bytes_of_text(r->toolchain);
    ret_report->library = bytes_of_text(r->library);
    ret_report->clock_mhz = r->clock_mhz;
    return KILN_OK;
}

struct reporting {
    /* The lease's connection.  On another connection, another lease may have the same id. */
    uint64_t connection;
    struct message_tuning_report message;
    uint64_t deadline_ns;
    struct kiln_lease next;
};

static enum kiln_code send_report(struct kiln_client *client, struct reporting *reporting,
                                  struct failure *failure)
{
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    message_tuning_report_write(&frame, &reporting->message);
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct request rq = { .type = MESSAGE_tuning_report,
                          .connection = reporting->connection,
                          .frame = &frame,
                          .waiter = &waiter,
                          .accept = accept_leased,
                          .context = &reporting->next };
    enum kiln_code rc = call_kilnd(client, &rq, reporting->deadline_ns, failure);
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(
            &failure->err, rc,
            "the lease has ended: its connection was lost and other processes got its "
            "share, or another thread has reported the last share; call kiln_perf_get, "
            "then take another lease");
    return rc;
}

int kiln_lease_report(struct kiln_client *client, const struct kiln_lease *lease,
                      const struct kiln_recording *recording, struct kiln_lease *ret_next,
                      struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    struct kiln_recording r = { .size = 0 };
    if (!is_lease(lease) || !lease->connection || !is_lease(ret_next))
        return error_argument(err, "kiln_lease_report needs a lease that was granted, and a place "
                                   "for the next one, with size set to sizeof the struct");
    struct reporting reporting = { .connection = lease->connection,
                                   .message = { .lease = lease->id, .first = lease->first } };
    enum kiln_code rc = recording ? recording_read(recording, &r, &f.err) : KILN_OK;
    if (!rc)
        rc = client_enter(client, r.timeout_ms, &reporting.deadline_ns, &f.err);
    if (!rc && recording)
        rc = read_best(&r, &reporting.message, &f.err);
    if (!rc)
        rc = send_report(client, &reporting, &f);
    if (!rc && reporting.next.state == KILN_LEASE_DONE)
        /* forgets the plans of all problems, because the lease does not name its problem */
        plans_forget(client, NULL);
    if (!rc)
        copy_lease(&reporting.next, ret_next);
    return failure_return(&f, rc, err);
}
