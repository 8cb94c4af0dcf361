/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "engine/service/fleet/fleet_records.h"
#include "engine/service/tuning/tuning_put.h"
#include "engine/service/tuning/tuning_state.h"
#include "engine/service/tuning/tuning_validation.h"

#include <string.h>

/* A frame is sent when its size reaches this. One more record always fits below the protocol's
 * limit. */
#define FRAME_ENOUGH (1u << 20)

struct get {
    struct engine *engine;
    struct caller *caller;
    uint64_t request_id;
    struct tuning_question question;
    bool wants_measurements;
    struct tuning_database database;
    char driver[TUNING_ORIGIN_TEXT], toolchain[TUNING_ORIGIN_TEXT];
    struct reader problems;
    uint32_t count, next;
    uint32_t written;
};

static enum kiln_code read_get(struct bytes body, struct get *get, struct kiln_err *err)
{
    struct engine *e = get->engine;
    struct reader r = reader_of(body);
    struct message_tuning_get m = message_tuning_get_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_tuning_get, err);
    enum tuning_kind kind = TUNING_FIND;
    if (!rc)
        rc = tuning_kind_take(m.kind, &kind, err);
    if (!rc)
        rc = tuning_database_take(kind, m.database_id, m.backend, &e->tuning->asked[kind], err);
    if (!rc)
        rc = tuning_text_take("driver", m.driver, TUNING_ORIGIN_TEXT, get->driver, err);
    if (!rc)
        rc = tuning_text_take("toolchain", m.toolchain, TUNING_ORIGIN_TEXT, get->toolchain, err);
    if (!rc && (m.count == 0 || m.count > LIMIT_BATCH_ITEMS ||
                m.problems.size != (size_t)m.count * PROBLEM_WIRE_SIZE))
        rc = kiln_fail(err, KILN_INVALID,
                       "a look-up has 1 to %u problems of %u bytes each: this one announces %u and "
                       "has %zu bytes",
                       LIMIT_BATCH_ITEMS, PROBLEM_WIRE_SIZE, (unsigned)m.count, m.problems.size);
    get->question = (struct tuning_question){ .kind = kind,
                                              .uid = (uint32_t)get->caller->uid,
                                              .nearest = m.flags & TUNING_NEAREST };
    get->wants_measurements = m.flags & TUNING_MEASUREMENTS;
    get->database = e->tuning->asked[kind];
    if (!rc)
        fleet_records_want(e, get->database.id);
    get->problems = reader_of(m.problems);
    get->count = m.count;
    get->next = get->written = 0;
    return rc;
}

static void send_tuned(struct get *get, uint16_t flags)
{
    struct engine *e = get->engine;
    struct message_tuned m = { .count = get->written, .answers = buffer_view(&e->records) };
    e->body.size = 0;
    e->body.failed = e->records.failed;
    message_tuned_write(&e->body, &m);
    struct reply reply = { .type = MESSAGE_tuned,
                           .request_id = get->request_id,
                           .flags = flags,
                           .body = buffer_view(&e->body) };
    get->written = 0;
    e->records.size = 0;
    get->caller->ops->reply(get->caller, &reply);
}

static void put_measurement(struct buffer *to, const struct tuning_row *row)
{
    const struct tuning_measurement *x = &row->measured;
    const struct message_tuning_measurement m = {
        .id = row->id,
        .samples = x->samples,
        .median_ms = tuning_bits_of(x->median_ms),
        .spread_ms = tuning_bits_of(x->spread_ms),
        .measured_at = x->measured_at,
        .uid = x->uid,
        .device_uuid = bytes_of_text(x->origin.device_uuid),
        .device = bytes_of_text(x->origin.device),
        .driver = bytes_of_text(x->origin.driver),
        .toolchain = bytes_of_text(x->origin.toolchain),
        .library = bytes_of_text(x->origin.library),
        .clock_mhz = x->origin.clock_mhz,
    };
    message_tuning_measurement_write(to, &m);
}

static void count_answer(struct engine *e, enum kiln_code rc, const struct tuning_answer *answer)
{
    struct stats *s = &e->stats;
    if (rc) {
        s->tuning_misses++;
        return;
    }
    *(answer->tier == TUNING_TIER_USER   ? &s->tuning_hits_user
      : answer->tier == TUNING_TIER_HOST ? &s->tuning_hits_host
                                         : &s->tuning_hits_system) += 1;
    s->tuning_near += answer->is_near;
    s->tuning_stale += answer->is_stale;
}

static void put_answer(struct get *get, uint32_t index, const struct tuning_answer *answer)
{
    struct engine *e = get->engine;
    size_t rows = get->wants_measurements && answer->rows ? answer->row_count : 0;
    buffer_clear(&e->body);
    for (size_t i = 0; i < rows; i++)
        put_measurement(&e->body, &answer->rows[i]);
    const struct message_tuning_answer m = {
        .index = index,
        .tier = (uint8_t)answer->tier,
        .flags =
            (uint8_t)((answer->is_stale ? TUNING_STALE : 0) | (answer->is_near ? TUNING_NEAR : 0)),
        .batch_ratio = tuning_bits_of(answer->batch_ratio),
        .spatial_ratio = tuning_bits_of(answer->spatial_ratio),
        .key = answer->key,
        .value = answer->value,
        .measurement_count = (uint32_t)rows,
        .measurements = buffer_view(&e->body),
    };
    message_tuning_answer_write(&e->records, &m);
    e->records.failed |= e->body.failed;
}

static void put_failure(struct get *get, uint32_t index, enum kiln_code rc,
                        const struct kiln_err *why)
{
    const struct message_tuning_answer m = { .index = index,
                                             .code = (uint16_t)rc,
                                             .text = bytes_of_text(why->text) };
    message_tuning_answer_write(&get->engine->records, &m);
}

static void answer_next(struct get *get)
{
    struct kiln_err why;
    kiln_err_init(&why);
    struct problem problem = problem_read(&get->problems);
    struct tuning_answer answer;
    get->question.problem = &problem;
    get->question.database_id = get->database.id;
    get->question.backend = get->database.backend;
    get->question.driver = get->driver;
    get->question.toolchain = get->toolchain;
    enum kiln_code rc = tuning_find(get->engine->tuning->databases, &get->question, &answer, &why);
    count_answer(get->engine, rc, &answer);
    if (rc)
        put_failure(get, get->next, rc, &why);
    else
        put_answer(get, get->next, &answer);
    get->next++;
    get->written++;
}

/* Answers problems for one time slice. Returns false if problems are left. The time is limited
 * because a search for a neighbour visits thousands of records, and a record may have hundreds of
 * entries in each tier. */
static bool answer_some(struct get *get)
{
    struct engine *e = get->engine;
    bool may_be_long = get->count - get->next > 1;
    uint64_t end_ns = may_be_long ? clock_monotonic_ns() + TASK_SLICE_NS : 0;
    buffer_clear(&e->records);
    while (get->next < get->count) {
        answer_next(get);
        if (get->next == get->count)
            break;
        bool is_long = clock_monotonic_ns() > end_ns;
        if (is_long || e->records.size >= FRAME_ENOUGH)
            send_tuned(get, FRAME_MORE);
        if (is_long)
            return false;
    }
    send_tuned(get, 0);
    return true;
}

struct long_get {
    struct deferred base;
    struct get get;
    uint8_t *problems;
};

static void go_on(struct deferred *d)
{
    struct long_get *l = (struct long_get *)d;
    if (d->caller && !answer_some(&l->get))
        deferred_run(d, d->step);
    else
        deferred_destroy(d);
}

static void release_get(struct deferred *d) { free(((struct long_get *)d)->problems); }

static const struct deferred_kind deferred_get = { .size = sizeof(struct long_get),
                                                   .release = release_get };
static const struct deferred_step pause_step = { .done = go_on };

static enum kiln_code keep_problems(struct long_get *l, struct bytes problems, struct kiln_err *err)
{
    enum kiln_code rc = deferred_charge(&l->base, problems.size, err);
    if (rc)
        return rc;
    l->problems = malloc(problems.size);
    if (!l->problems)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    memcpy(l->problems, problems.data, problems.size);
    l->get.problems = reader_of(bytes_of(l->problems, problems.size));
    return KILN_OK;
}

static enum kiln_code go_on_later(const struct get *get, struct kiln_err *err)
{
    struct long_get *l =
        deferred_create(&deferred_get, get->engine, get->caller, get->request_id, err);
    if (!l)
        return err->code;
    l->get = *get;
    enum kiln_code rc =
        keep_problems(l, bytes_of(get->problems.at, reader_left(&get->problems)), err);
    if (!rc)
        deferred_run(&l->base, &pause_step);
    return deferred_wait_or_destroy(&l->base, rc);
}

enum kiln_code handle_tuning_get(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    struct get get;
    get.engine = e; /* assigned one by one, because the struct is large */
    get.caller = caller;
    get.request_id = header->request_id;
    enum kiln_code rc = read_get(body, &get, err);
    if (!rc)
        rc = tuning_ready(e, err);
    if (rc || answer_some(&get))
        return rc;
    return go_on_later(&get, err);
}

struct measured {
    struct tuning_place place;
    struct tuning_put_token token;
    bool has_token;
    struct tuning_measurement measured;
    char database_id[DATABASE_ID_MAX], backend[TUNING_BACKEND_TEXT], key[PROBLEM_KEY_MAX];
    struct origin_texts texts;
    char direction; /* the problem's direction, as in keys */
    struct buffer values;
    struct tuning_row rows[TUNING_ENTRIES_MAX];
    size_t ends[TUNING_ENTRIES_MAX];
};

static enum kiln_code read_place(const struct message_tuning_put *m, const struct caller *caller,
                                 struct measured *x, struct kiln_err *err)
{
    struct tuning_place *place = &x->place;
    enum kiln_code rc = tuning_kind_take(m->kind, &place->kind, err);
    if (!rc && m->tier != TUNING_TIER_HOST && m->tier != TUNING_TIER_USER)
        rc = kiln_fail(err, KILN_INVALID,
                       "tier %u does not accept measurements: use 2 (host) or 3 (user)",
                       (unsigned)m->tier);
    if (!rc)
        rc = tuning_publisher_check(caller->role, (enum tuning_tier)m->tier, err);
    if (!rc)
        rc = tuning_database_id_take(m->database_id, x->database_id, err);
    if (!rc)
        rc = tuning_backend_take(place->kind, x->database_id, m->backend, x->backend, err);
    if (!rc)
        rc = problem_check(&m->problem, err);
    if (!rc)
        rc = tuning_key_of(place->kind, &m->problem, x->key, &place->key, err);
    if (!rc)
        x->direction = *direction_name((enum direction)m->problem.direction);
    place->tier = (enum tuning_tier)m->tier;
    place->uid = m->tier == TUNING_TIER_USER ? (uint32_t)caller->uid : TUNING_NOBODY;
    place->database_id = x->database_id;
    place->backend = x->backend;
    return rc;
}

static enum kiln_code read_origin(const struct message_tuning_put *m, const struct caller *caller,
                                  struct measured *x, struct kiln_err *err)
{
    const struct origin_fields fields = { m->device_uuid, m->device, m->driver, m->toolchain,
                                          m->library };
    x->measured.measured_at = clock_wall_s();
    x->measured.uid = (uint32_t)caller->uid;
    return tuning_origin_take(&fields, m->clock_mhz, &x->texts, &x->measured.origin, err);
}

_Static_assert(TUNING_TOKEN_SIZE == TUNING_PUT_TOKEN, "a token is kept as it comes");

static enum kiln_code read_token(const struct message_tuning_put *m, struct measured *x,
                                 struct kiln_err *err)
{
    if (m->token.size == 0)
        return KILN_OK;
    if (m->token.size != TUNING_TOKEN_SIZE)
        return kiln_fail(err, KILN_INVALID, "the token has %zu bytes: it must have %u or none",
                         m->token.size, TUNING_TOKEN_SIZE);
    memcpy(x->token.bytes, m->token.data, TUNING_TOKEN_SIZE);
    x->has_token = true;
    return KILN_OK;
}

static enum kiln_code check_measurement(const struct message_tuning_entry *m,
                                        struct tuning_measurement *measured, struct kiln_err *err)
{
    measured->samples = m->samples;
    if (m->samples == 0)
        return kiln_fail(err, KILN_INVALID,
                         "the number of samples is 0: a record needs a measurement");
    enum kiln_code rc = tuning_time_take("median", m->median_ms, &measured->median_ms, err);
    return rc ? rc : tuning_time_take("spread", m->spread_ms, &measured->spread_ms, err);
}

static enum kiln_code read_find_entry(const struct message_tuning_entry *m, struct measured *x,
                                      struct tuning_row *row, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer one;
    buffer_init(&one, 2 * TUNING_VALUE_MAX);
    const struct tuning_entry entry = { .id = m->solver,
                                        .solver = m->solver,
                                        .algorithm = m->algorithm,
                                        .time_ms = row->measured.median_ms,
                                        .workspace = m->workspace,
                                        .dialect = FIND_NEW };
    enum kiln_code rc = tuning_entry_check(TUNING_FIND, &entry, x->direction, err);
    if (rc)
        return rc;
    if (m->params.size > 0)
        return kiln_fail(err, KILN_INVALID, "a find entry must not have parameters");
    tuning_entry_write_find(&one, FIND_NEW, &entry);
    buffer_put(&x->values, one.data, one.size);
    return one.failed || x->values.failed
               ? kiln_fail(err, KILN_NO_MEMORY, "cannot record the measurement")
               : KILN_OK;
}

static enum kiln_code read_perf_entry(const struct message_tuning_entry *m, struct tuning_row *row,
                                      struct kiln_err *err)
{
    row->values = m->params;
    if (m->algorithm.size > 0 || m->workspace > 0)
        return kiln_fail(err, KILN_INVALID,
                         "a perf entry must have neither an algorithm nor a workspace");
    return m->params.size > 0 ? tuning_word_check("parameters", m->params, true, err) : KILN_OK;
}

static enum kiln_code read_entry(struct reader *entries, struct measured *x, size_t index,
                                 struct kiln_err *err)
{
    struct message_tuning_entry m = message_tuning_entry_read(entries);
    struct tuning_row *row = &x->rows[index];
    if (entries->failed)
        return kiln_fail(err, KILN_INVALID, "the list of entries ends too early");
    *row = (struct tuning_row){ .place = x->place, .id = m.solver, .measured = x->measured };
    enum kiln_code rc = tuning_solver_check(m.solver, err);
    for (size_t i = 0; !rc && i < index; i++) {
        if (bytes_equal(x->rows[i].id, m.solver))
            rc = kiln_fail(err, KILN_INVALID, "two entries name this solver");
    }
    if (!rc)
        rc = check_measurement(&m, &row->measured, err);
    if (!rc)
        rc = x->place.kind == TUNING_FIND ? read_find_entry(&m, x, row, err)
                                          : read_perf_entry(&m, row, err);
    x->ends[index] = x->values.size;
    return rc ? kiln_while(err, "entry %zu", index) : KILN_OK;
}

static enum kiln_code read_entries(const struct message_tuning_put *m, struct measured *x,
                                   struct kiln_err *err)
{
    struct reader entries = reader_of(m->entries);
    if (m->count == 0 || m->count > TUNING_ENTRIES_MAX)
        return kiln_fail(err, KILN_INVALID, "a record has 1 to %u entries, not %u",
                         TUNING_ENTRIES_MAX, (unsigned)m->count);
    for (size_t i = 0; i < m->count; i++) {
        if (read_entry(&entries, x, i, err))
            return err->code;
    }
    if (reader_left(&entries))
        return kiln_fail(err, KILN_INVALID, "%zu bytes follow the last entry",
                         reader_left(&entries));
    for (size_t i = 0, begin = 0; x->place.kind == TUNING_FIND && i < m->count;
         begin = x->ends[i], i++) {
        size_t values = begin + x->rows[i].id.size + 1;
        x->rows[i].values = bytes_of(x->values.data + values, x->ends[i] - values);
    }
    return KILN_OK;
}

static void reply_recorded(struct tuning_put *put, struct caller *caller)
{
    struct engine *e = put->base.engine;
    const struct message_recorded m = { .count = (uint32_t)put->record->count };
    buffer_clear(&e->body);
    message_recorded_write(&e->body, &m);
    service_reply_body(e, caller, MESSAGE_recorded, put->base.request_id);
}

static const struct tuning_put_kind put_kind = { .reply = reply_recorded };

enum kiln_code handle_tuning_put(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_tuning_put m = message_tuning_put_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_tuning_put, err);
    KILN_AUTO(mem) struct measured *x = calloc(1, sizeof(*x));
    if (!rc && !x)
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot record the measurement");
    if (rc)
        return rc;
    buffer_init(&x->values, TUNING_ENTRIES_MAX * TUNING_VALUE_MAX);
    rc = read_place(&m, caller, x, err);
    if (!rc)
        rc = read_origin(&m, caller, x, err);
    if (!rc)
        rc = read_token(&m, x, err);
    if (!rc)
        rc = read_entries(&m, x, err);
    const struct tuning_putting what = { .kind = &put_kind,
                                         .rows = x->rows,
                                         .count = m.count,
                                         .token = x->has_token ? &x->token : NULL };
    if (!rc)
        rc = tuning_put_begin(e, caller, header->request_id, &what, err);
    buffer_done(&x->values);
    return rc;
}
