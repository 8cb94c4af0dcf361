/* SPDX-License-Identifier: MIT */
#include "libclient/client.h"
#include "libclient/plans/problem.h"
#include "libclient/sized.h"
#include "libclient/tuning/tuning_ask.h"

/* Maximum number of problems in one message.  While this client reads the answers, kilnd looks up
 * the problems of the next message. */
#define MESSAGE_PROBLEMS 256u
_Static_assert(MESSAGE_PROBLEMS <= LIMIT_BATCH_ITEMS, "kilnd accepts more problems in one message");
/* Maximum number of messages submitted at once.  The multiplexer holds back messages that kilnd
 * does not accept yet. */
#define WINDOW_MAX 8u

static enum kiln_code get_one(struct kiln_client *client, const struct question *question,
                              const struct kiln_problem *problem, struct kiln_tuned **ret_tuned,
                              struct failure *failure)
{
    struct problem p;
    uint64_t deadline_ns;
    if (!ret_tuned)
        return kiln_fail(&failure->err, KILN_INVALID, "kiln_%s_get needs a pointer for the record",
                         tuning_kind_name(question->kind));
    enum kiln_code rc = client_enter(client, question->timeout_ms, &deadline_ns, &failure->err);
    if (!rc)
        rc = problem_from_public(problem, &p, &failure->err);
    if (rc)
        return rc;
    uint8_t storage[ASK_FRAME_MAX(1)], wire[PROBLEM_WIRE_SIZE];
    struct buffer problems = { .data = wire, .capacity = sizeof(wire), .limit = sizeof(wire) };
    WAITER_AUTO struct waiter waiter;
    __attribute__((cleanup(ask_done))) struct ask ask;
    struct kiln_tuned *tuned = NULL;
    waiter_init(&waiter);
    ask_init(&ask, question, &tuned, &waiter);
    client_frame_init_in(&ask.frame, storage, sizeof(storage));
    problem_write(&problems, &p);
    ask_write(&ask, buffer_view(&problems), 1);
    rc = ask_end(&ask, multiplexer_call(client->multiplexer, &ask.request, deadline_ns), failure);
    if (tuned == ask_unanswered())
        tuned = NULL;
    if (!rc && !tuned)
        rc = kiln_fail(&failure->err, KILN_NOT_FOUND,
                       "nothing is recorded for this problem on '%.*s'",
                       (int)question->message.database_id.size,
                       (const char *)question->message.database_id.data);
    if (rc)
        kiln_tuned_free(tuned);
    else
        *ret_tuned = tuned;
    return rc;
}

int kiln_find_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_tuning_options *options, struct kiln_tuned **ret_tuned,
                  struct kiln_error *err)
{
    FAILURE_AUTO struct failure f;
    struct question question;
    failure_init(&f);
    enum kiln_code rc = question_read(TUNING_FIND, options, &question, &f.err);
    if (!rc)
        rc = get_one(client, &question, problem, ret_tuned, &f);
    return failure_return(&f, rc, err);
}

int kiln_perf_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_tuning_options *options, struct kiln_tuned **ret_tuned,
                  struct kiln_error *err)
{
    FAILURE_AUTO struct failure f;
    struct question question;
    failure_init(&f);
    enum kiln_code rc = question_read(TUNING_PERF, options, &question, &f.err);
    if (!rc)
        rc = get_one(client, &question, problem, ret_tuned, &f);
    return failure_return(&f, rc, err);
}

struct batch {
    struct kiln_client *client;
    const struct kiln_problem *problems;
    size_t count, next;
    struct question question;
    struct waiter waiter;
    struct kiln_tuned **tuned;
    struct ask asks[WINDOW_MAX];
    uint8_t wire[MESSAGE_PROBLEMS * PROBLEM_WIRE_SIZE];
};

static void batch_destroy(struct batch *b)
{
    if (!b)
        return;
    for (unsigned i = 0; i < WINDOW_MAX; i++) {
        if (b->asks[i].used) {
            multiplexer_abandon(b->client->multiplexer, &b->asks[i].request);
            ask_done(&b->asks[i]);
        }
        buffer_done(&b->asks[i].frame);
    }
    for (size_t i = 0; b->tuned && i < b->next; i++) {
        if (b->tuned[i] != ask_unanswered())
            kiln_tuned_free(b->tuned[i]);
    }
    free(b->tuned);
    waiter_done(&b->waiter);
    free(b);
}
KILN_DEFINE_AUTO(batch)

static enum kiln_code write_problems(struct batch *b, size_t count, struct buffer *to,
                                     struct kiln_err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct problem p;
        const struct kiln_problem *problem = sized_at(b->problems, b->problems->size, b->next + i);
        if (problem_from_public(problem, &p, err))
            return kiln_while(err, "problem %zu of %zu", b->next + i, b->count);
        problem_write(to, &p);
    }
    return KILN_OK;
}

static enum kiln_code ask_next(struct batch *b, struct ask *ask, struct kiln_err *err)
{
    size_t left = b->count - b->next;
    uint32_t count = left < MESSAGE_PROBLEMS ? (uint32_t)left : MESSAGE_PROBLEMS;
    struct buffer problems = { .data = b->wire,
                               .capacity = sizeof(b->wire),
                               .limit = sizeof(b->wire) };
    enum kiln_code rc = write_problems(b, count, &problems, err);
    if (rc)
        return rc;
    buffer_done(&ask->frame);
    ask_init(ask, &b->question, &b->tuned[b->next], &b->waiter);
    client_frame_init(&ask->frame);
    ask_write(ask, buffer_view(&problems), count);
    b->next += count;
    return multiplexer_submit(b->client->multiplexer, &ask->request, err);
}

static enum kiln_code continue_batch(struct batch *b, bool *ret_waits, struct failure *failure)
{
    enum kiln_code rc = KILN_OK;
    *ret_waits = false;
    for (unsigned i = 0; i < WINDOW_MAX && !rc; i++) {
        struct ask *ask = &b->asks[i];
        if (ask->used && ask->request.ended) {
            rc = ask_end(ask, ask->request.code, failure);
            ask_done(ask);
        }
        if (!rc && !ask->used && b->next < b->count)
            rc = ask_next(b, ask, &failure->err);
        *ret_waits |= ask->used;
    }
    return rc;
}

static enum kiln_code run_batch(struct batch *b, uint64_t deadline_ns, struct failure *failure)
{
    bool waits;
    enum kiln_code rc = continue_batch(b, &waits, failure);
    while (!rc && waits) {
        rc = multiplexer_wait(b->client->multiplexer, &b->waiter, deadline_ns, &failure->err);
        if (!rc)
            rc = continue_batch(b, &waits, failure);
    }
    return rc;
}

static enum kiln_code batch_create(struct kiln_client *client,
                                   const struct kiln_tuning_batch *asked, struct batch **ret_batch,
                                   struct kiln_err *err)
{
    struct batch *b = malloc(sizeof(*b));
    struct kiln_tuned **tuned = calloc(asked->count, sizeof(struct kiln_tuned *));
    if (!b || !tuned) {
        free(b);
        free(tuned);
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the records of %zu problems",
                         asked->count);
    }
    memset(b, 0, offsetof(struct batch, wire));
    b->client = client;
    b->problems = asked->problems;
    b->count = asked->count;
    b->tuned = tuned;
    waiter_init(&b->waiter);
    *ret_batch = b;
    return KILN_OK;
}

static enum kiln_code get_many(struct kiln_client *client, const struct kiln_tuning_batch *asked,
                               const struct question *question, struct kiln_tuned **ret_tuned,
                               struct failure *failure)
{
    KILN_AUTO(batch) struct batch *b = NULL;
    uint64_t deadline_ns;
    enum kiln_code rc = client_enter(client, question->timeout_ms, &deadline_ns, &failure->err);
    if (rc || asked->count == 0)
        return rc;
    rc = batch_create(client, asked, &b, &failure->err);
    if (rc)
        return rc;
    b->question = *question;
    rc = run_batch(b, deadline_ns, failure);
    if (rc)
        return rc;
    memcpy(ret_tuned, b->tuned, asked->count * sizeof(struct kiln_tuned *));
    b->next = 0; /* the records now belong to the caller */
    return KILN_OK;
}

static int get_batch(enum tuning_kind kind, struct kiln_client *client,
                     const struct kiln_tuning_batch *batch, struct kiln_tuned **ret_tuned,
                     struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    struct question question;
    if (!batch || !sized_is_fine(batch->size, SIZED_TO(struct kiln_tuning_batch, options)))
        return error_argument(err, "kiln_tuning_batch.size is not set: give it sizeof the struct");
    if (batch->count && (!batch->problems || !ret_tuned))
        return error_argument(err, "kiln_%s_get_batch needs problems and pointers for the records",
                              tuning_kind_name(kind));
    if (batch->count && batch->problems->size > SIZED_MAX)
        return error_argument(err, "kiln_problem.size is not set: give it sizeof the struct");
    enum kiln_code rc = question_read(kind, batch->options, &question, &f.err);
    if (!rc)
        rc = get_many(client, batch, &question, ret_tuned, &f);
    return failure_return(&f, rc, err);
}

int kiln_find_get_batch(struct kiln_client *client, const struct kiln_tuning_batch *batch,
                        struct kiln_tuned **ret_tuned, struct kiln_error *err)
{
    return get_batch(TUNING_FIND, client, batch, ret_tuned, err);
}

int kiln_perf_get_batch(struct kiln_client *client, const struct kiln_tuning_batch *batch,
                        struct kiln_tuned **ret_tuned, struct kiln_error *err)
{
    return get_batch(TUNING_PERF, client, batch, ret_tuned, err);
}
