/* SPDX-License-Identifier: MIT */
#include "libclient/tuning/tuning_ask.h"

#include "common/miopen/device_database_id.h"
#include "libclient/sized.h"

static enum kiln_code check_text(const char *name, struct bytes text, struct kiln_err *err)
{
    if (text.size <= QUESTION_TEXT_MAX)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID,
                     "kiln_tuning_options.%s has %zu bytes, at most %u are allowed", name,
                     text.size, QUESTION_TEXT_MAX);
}

static enum kiln_code check_texts(const struct message_tuning_get *m, struct kiln_err *err)
{
    if (m->database_id.size == 0)
        return kiln_fail(err, KILN_INVALID,
                         "kiln_tuning_options.database_id is not set: use "
                         "kiln_device_database_id() of the device");
    enum kiln_code rc = check_text("database_id", m->database_id, err);
    if (!rc)
        rc = check_text("backend", m->backend, err);
    if (!rc)
        rc = check_text("driver", m->driver, err);
    if (!rc)
        rc = check_text("toolchain", m->toolchain, err);
    return rc;
}

enum kiln_code question_read(enum tuning_kind kind, const struct kiln_tuning_options *options,
                             struct question *ret_question, struct kiln_err *err)
{
    struct kiln_tuning_options o;
    if (!options ||
        !sized_is_fine(options->size, SIZED_TO(struct kiln_tuning_options, measurements)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_tuning_options.size is not set: give it sizeof the struct");
    sized_copy(&o, sizeof(o), options, options->size);
    const char *backend = o.backend ? o.backend : database_id_backend(bytes_of_text(o.database_id));
    *ret_question = (struct question){
        .kind = kind,
        .message = { .kind = (uint8_t)kind,
                     .flags = (uint8_t)((o.nearest ? TUNING_NEAREST : 0) |
                                        (o.measurements ? TUNING_MEASUREMENTS : 0)),
                     .database_id = bytes_of_text(o.database_id),
                     .backend = bytes_of_text(kind == TUNING_FIND ? backend : NULL),
                     .driver = bytes_of_text(o.driver),
                     .toolchain = bytes_of_text(o.toolchain) },
        .timeout_ms = o.timeout_ms,
    };
    return check_texts(&ret_question->message, err);
}

struct kiln_tuned *ask_unanswered(void)
{
    static char place;
    return (struct kiln_tuned *)(void *)&place;
}

static enum kiln_code accept_answer(struct ask *ask, const struct message_tuning_answer *a,
                                    const struct reply *reply, struct failure *failure)
{
    struct kiln_err *err = &failure->err;
    if (a->index >= ask->count)
        return kiln_fail(err, KILN_CORRUPT, "kilnd answers problem %u of %u", a->index, ask->count);
    struct kiln_tuned **at = &ask->tuned[a->index];
    if (*at != ask_unanswered()) {
        if (ask->request.sends > 1)
            return KILN_OK; /* the answer was read before the connection was lost */
        return kiln_fail(err, KILN_CORRUPT, "kilnd answers problem %u twice", a->index);
    }
    if ((a->flags & TUNING_NEAR) && !(ask->question->message.flags & TUNING_NEAREST))
        return kiln_fail(err, KILN_CORRUPT,
                         "kilnd answered with a neighbour's record, which was not requested");
    if (reply_puts_off(reply, a->code))
        return failure_said(failure, a->code, a->text, (struct bytes){ 0 });
    struct kiln_tuned *tuned = NULL;
    enum kiln_code rc = KILN_OK;
    if (a->code == KILN_OK)
        rc = tuned_create(ask->question->kind, a, &tuned, err);
    else if (a->code != KILN_NOT_FOUND && !ask->code)
        ask->code = failure_said(&ask->failure, a->code, a->text, (struct bytes){ 0 });
    if (rc)
        return rc;
    *at = tuned;
    ask->answered++;
    return KILN_OK;
}

static enum kiln_code accept_answers(struct request *request, const struct reply *reply,
                                     struct failure *failure)
{
    struct ask *ask = request->context;
    struct reader r = reader_of(reply->body);
    struct message_tuned m = message_tuned_read(&r);
    if (reply->header->type != MESSAGE_tuned || r.failed || r.at != r.end)
        return kiln_fail(&failure->err, KILN_CORRUPT,
                         "kilnd's answer to a look-up of records is damaged");
    struct reader answers = reader_of(m.answers);
    enum kiln_code rc = KILN_OK;
    for (uint32_t i = 0; i < m.count && !rc; i++) {
        struct message_tuning_answer a = message_tuning_answer_read(&answers);
        if (answers.failed)
            break;
        rc = accept_answer(ask, &a, reply, failure);
    }
    if (!rc && (answers.failed || answers.at != answers.end))
        rc = kiln_fail(&failure->err, KILN_CORRUPT, "kilnd's records do not match their count");
    if (!rc && !(reply->header->flags & FRAME_MORE) && ask->answered < ask->count)
        rc = kiln_fail(&failure->err, KILN_CORRUPT, "kilnd answers %u problems of %u",
                       ask->answered, ask->count);
    return rc;
}

void ask_init(struct ask *ask, const struct question *question, struct kiln_tuned **tuned,
              struct waiter *waiter)
{
    memset(ask, 0, offsetof(struct ask, failure));
    ask->question = question;
    ask->tuned = tuned;
    ask->used = true;
    failure_init(&ask->failure);
    request_init(&ask->request);
    ask->request.type = MESSAGE_tuning_get;
    ask->request.frame = &ask->frame;
    ask->request.waiter = waiter;
    ask->request.accept = accept_answers;
    ask->request.context = ask;
}

void ask_write(struct ask *ask, struct bytes problems, uint32_t count)
{
    struct message_tuning_get m = ask->question->message;
    m.count = ask->count = count;
    m.problems = problems;
    message_tuning_get_write(&ask->frame, &m);
    for (uint32_t i = 0; i < count; i++)
        ask->tuned[i] = ask_unanswered();
}

enum kiln_code ask_end(struct ask *ask, enum kiln_code code, struct failure *failure)
{
    if (!code && !ask->code)
        return KILN_OK;
    struct failure *why = code ? &ask->request.failure : &ask->failure;
    failure_done(failure);
    *failure = *why;
    why->log = NULL;
    return code ? code : ask->code;
}

void ask_done(struct ask *ask)
{
    failure_done(&ask->failure);
    failure_done(&ask->request.failure);
    ask->used = false;
}
