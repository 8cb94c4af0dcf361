/* SPDX-License-Identifier: MIT */
#include "libclient/tuning/recording.h"

#include "common/miopen/device_database_id.h"
#include "libclient/client.h"
#include "libclient/plans/plan.h"
#include "libclient/plans/problem.h"
#include "libclient/real.h"
#include "libclient/sized.h"

#include <sys/random.h>

/* Maximum bytes of each text that describes where something was measured. kilnd has a lower limit,
 * which its error message names. */
#define ORIGIN_MAX 1024u

static enum kiln_code check_origin(const struct kiln_recording *r, struct kiln_err *err)
{
    const char *const texts[] = { r->database_id, r->backend,   r->device_uuid, r->device,
                                  r->driver,      r->toolchain, r->library };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i] && strlen(texts[i]) > ORIGIN_MAX)
            return kiln_fail(err, KILN_INVALID,
                             "a text of struct kiln_recording has %zu bytes, at most %u are "
                             "allowed: '%.40s...'",
                             strlen(texts[i]), ORIGIN_MAX, texts[i]);
    }
    return KILN_OK;
}

enum kiln_code recording_read(const struct kiln_recording *recording,
                              struct kiln_recording *ret_recording, struct kiln_err *err)
{
    struct kiln_recording r;
    if (!recording ||
        !sized_is_fine(recording->size, SIZED_TO(struct kiln_recording, measurement_count)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_recording.size is not set: give it sizeof the struct");
    sized_copy(&r, sizeof(r), recording, recording->size);
    if (!r.library)
        r.library = "libkiln " KILN_VERSION;
    if (r.measurement_count > TUNING_ENTRIES_MAX || (r.measurement_count && !r.measurements))
        return kiln_fail(
            err, KILN_INVALID,
            "kiln_recording.measurements: %zu measurements announced, and none given or more "
            "than %u",
            r.measurement_count, TUNING_ENTRIES_MAX);
    enum kiln_code rc = check_origin(&r, err);
    if (!rc)
        *ret_recording = r;
    return rc;
}

static enum kiln_code check_names(enum tuning_kind kind, const struct message_tuning_entry *e,
                                  struct kiln_err *err)
{
    const struct tuning_entry entry = { .solver = e->solver, .algorithm = e->algorithm };
    enum kiln_code rc = tuning_entry_check(kind, &entry, /* direction= */ 0, err);
    if (!rc && kind == TUNING_PERF && e->params.size > 0)
        rc = tuning_word_check("parameter text", e->params, true, err);
    return rc;
}

static enum kiln_code check_numbers(const struct kiln_measurement *m, struct kiln_err *err)
{
    if (!real_is_fine(m->median_ms, 0) || !real_is_fine(m->spread_ms, 0))
        return kiln_fail(err, KILN_INVALID,
                         "the median and spread of '%s' are %g and %g ms: they must be finite and "
                         "not negative",
                         m->solver, m->median_ms, m->spread_ms);
    if (m->samples == 0)
        return kiln_fail(err, KILN_INVALID, "the measurement of '%s' has no samples", m->solver);
    return KILN_OK;
}

enum kiln_code recording_measurement(const struct kiln_recording *recording, enum tuning_kind kind,
                                     size_t index, struct message_tuning_entry *ret_entry,
                                     struct kiln_err *err)
{
    struct kiln_measurement m;
    size_t size = recording->measurements->size;
    if (!sized_is_fine(size, SIZED_TO(struct kiln_measurement, spread_ms)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_measurement.size is not set: give it sizeof the struct");
    sized_copy(&m, sizeof(m), sized_at(recording->measurements, size, index), size);
    bool is_find = kind == TUNING_FIND;
    struct message_tuning_entry e = {
        .solver = bytes_of_text(m.solver),
        .algorithm = bytes_of_text(is_find ? m.algorithm : NULL),
        .params = bytes_of_text(is_find ? NULL : m.params),
        .workspace = is_find ? m.workspace : 0,
        .samples = m.samples,
        .median_ms = real_bits(m.median_ms),
        .spread_ms = real_bits(m.spread_ms),
    };
    enum kiln_code rc = check_names(kind, &e, err);
    if (!rc)
        rc = check_numbers(&m, err);
    if (rc)
        return kiln_while(err, "measurement %zu", index);
    *ret_entry = e;
    return KILN_OK;
}

static enum kiln_code accept_recorded(struct request *request, const struct reply *reply,
                                      struct failure *failure)
{
    const struct message_tuning_put *put = request->context;
    struct reader r = reader_of(reply->body);
    struct message_recorded m = message_recorded_read(&r);
    if (reply->header->type != MESSAGE_recorded || r.failed || r.at != r.end ||
        (reply->header->flags & FRAME_MORE) || m.count != put->count)
        return kiln_fail(&failure->err, KILN_CORRUPT,
                         "kilnd did not confirm that %u measurements are recorded", put->count);
    return KILN_OK;
}

static enum kiln_code send_put(struct kiln_client *client, const struct message_tuning_put *put,
                               uint64_t deadline_ns, struct failure *failure)
{
    BUFFER_AUTO struct buffer frame;
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    client_frame_init(&frame);
    message_tuning_put_write(&frame, put);
    struct message_tuning_put asked = *put;
    struct request rq = { .type = MESSAGE_tuning_put,
                          .frame = &frame,
                          .waiter = &waiter,
                          .accept = accept_recorded,
                          .context = &asked };
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    *failure = rq.failure;
    return rc;
}

static enum kiln_code check_target(enum tuning_kind kind, const struct kiln_recording *r,
                                   struct kiln_err *err)
{
    if (!r->database_id || !r->database_id[0])
        return kiln_fail(err, KILN_INVALID,
                         "kiln_recording.database_id is not set: use kiln_device_database_id() of "
                         "the device");
    if (r->tier != KILN_TUNING_USER && r->tier != KILN_TUNING_HOST)
        return kiln_fail(err, KILN_INVALID,
                         "kiln_recording.tier is %d: give KILN_TUNING_USER, or KILN_TUNING_HOST "
                         "as a member of the group that publishes",
                         r->tier);
    if (r->measurement_count == 0)
        return kiln_fail(err, KILN_INVALID, "there are no measurements to record");
    if (kind == TUNING_FIND && r->backend && tuning_backend_check(bytes_of_text(r->backend), err))
        return kiln_while(err, "kiln_recording.backend");
    return KILN_OK;
}

/* Draws a random token for one request.  If the connection is lost, the request is sent again with
 * the same token, so kilnd records the measurements only once. */
static enum kiln_code draw_token(uint8_t ret_token[TUNING_TOKEN_SIZE], struct kiln_err *err)
{
    if (getrandom(ret_token, TUNING_TOKEN_SIZE, 0) != TUNING_TOKEN_SIZE)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "cannot get random numbers from the system; try again");
    return KILN_OK;
}

static enum kiln_code write_entries(enum tuning_kind kind, const struct kiln_recording *r,
                                    struct buffer *entries, struct kiln_err *err)
{
    for (size_t i = 0; i < r->measurement_count; i++) {
        struct message_tuning_entry e;
        enum kiln_code rc = recording_measurement(r, kind, i, &e, err);
        if (rc)
            return rc;
        message_tuning_entry_write(entries, &e);
    }
    if (entries->failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu measurements",
                         r->measurement_count);
    return KILN_OK;
}

static struct message_tuning_put message_of(enum tuning_kind kind, const struct kiln_recording *r)
{
    const char *backend =
        r->backend ? r->backend : database_id_backend(bytes_of_text(r->database_id));
    return (struct message_tuning_put){
        .kind = (uint8_t)kind,
        .tier = (uint8_t)r->tier,
        .database_id = bytes_of_text(r->database_id),
        .backend = bytes_of_text(kind == TUNING_FIND ? backend : NULL),
        .device_uuid = bytes_of_text(r->device_uuid),
        .device = bytes_of_text(r->device),
        .driver = bytes_of_text(r->driver),
        .toolchain = bytes_of_text(r->toolchain),
        .library = bytes_of_text(r->library),
        .clock_mhz = r->clock_mhz,
        .count = (uint32_t)r->measurement_count,
    };
}

static enum kiln_code put_checked(struct kiln_client *client, enum tuning_kind kind,
                                  const struct problem *problem, const struct kiln_recording *r,
                                  struct failure *failure)
{
    BUFFER_AUTO struct buffer entries;
    uint8_t token[TUNING_TOKEN_SIZE];
    uint64_t deadline_ns;
    buffer_init(&entries, LIMIT_FRAME_BODY);
    enum kiln_code rc = client_enter(client, r->timeout_ms, &deadline_ns, &failure->err);
    if (!rc)
        rc = draw_token(token, &failure->err);
    if (!rc)
        rc = write_entries(kind, r, &entries, &failure->err);
    if (rc)
        return rc;
    struct message_tuning_put m = message_of(kind, r);
    m.problem = *problem;
    m.token = bytes_of(token, sizeof(token));
    m.entries = buffer_view(&entries);
    rc = send_put(client, &m, deadline_ns, failure);
    /* forgets the plans even on failure, because kilnd may have recorded the measurements before
     * the answer was lost */
    plans_forget(client, problem);
    return rc;
}

static int put_recording(enum tuning_kind kind, struct kiln_client *client,
                         const struct kiln_problem *problem, const struct kiln_recording *recording,
                         struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    struct kiln_recording r;
    struct problem p;
    enum kiln_code rc = recording_read(recording, &r, &f.err);
    if (!rc)
        rc = problem_from_public(problem, &p, &f.err);
    if (!rc)
        rc = check_target(kind, &r, &f.err);
    if (!rc)
        rc = put_checked(client, kind, &p, &r, &f);
    return failure_return(&f, rc, err);
}

int kiln_find_put(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_recording *recording, struct kiln_error *err)
{
    return put_recording(TUNING_FIND, client, problem, recording, err);
}

int kiln_perf_put(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_recording *recording, struct kiln_error *err)
{
    return put_recording(TUNING_PERF, client, problem, recording, err);
}
