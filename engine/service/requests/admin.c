/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/admin.h"

#include <stdio.h>
#include <string.h>

/* Maximum size of a question. No valid question is longer, and parsing megabytes of JSON would
 * delay all other users. */
#define QUESTION_MAX (64u << 10)

const struct admin_member admin_no_members[] = { { 0 } };

static void send_text(struct engine *e, struct caller *caller, struct reply *reply,
                      const char *text)
{
    if (!text || strlen(text) > LIMIT_FRAME_BODY) {
        service_refuse_unbuilt(e, caller, reply->request_id);
        return;
    }
    reply->type = MESSAGE_json;
    reply->body = bytes_of_text(text);
    caller->ops->reply(caller, reply);
}

void admin_send(struct engine *e, struct caller *caller, uint64_t id, const struct json *answer,
                uint16_t flags)
{
    KILN_AUTO(mem) char *text = json_print(answer, false);
    struct reply reply = { .request_id = id, .flags = flags };
    send_text(e, caller, &reply, text);
}

void admin_send_files(const struct deferred *d, struct caller *caller, struct object *const *files,
                      size_t file_count)
{
    KILN_AUTO(mem) char *text = json_print(d->answer, false);
    struct reply reply = { .request_id = d->request_id,
                           .objects = files,
                           .object_count = file_count };
    send_text(d->engine, caller, &reply, text);
}

static bool all_texts(const struct json *list)
{
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        if (!json_is_text(j))
            return false;
    }
    return json_is_array(list);
}

static bool has_type(const struct json *question, const struct json *j, enum member_type type)
{
    const uint64_t no_count = UINT64_MAX;
    switch (type) {
    case MEMBER_TEXT: return json_is_text(j);
    case MEMBER_COUNT: return json_get_u64(question, json_name(j), no_count) != no_count;
    case MEMBER_FLAG: return json_is_bool(j);
    case MEMBER_TEXTS: return all_texts(j);
    }
    return false;
}

static enum kiln_code check_member(const struct json *question, const struct json *j,
                                   const struct admin_member *members, struct kiln_err *err)
{
    static const char *const types[] = {
        [MEMBER_TEXT] = "a text",
        [MEMBER_COUNT] = "a number from 0 to 2^53",
        [MEMBER_FLAG] = "true or false",
        [MEMBER_TEXTS] = "a list of texts",
    };
    for (; members->name; members++) {
        if (strcmp(members->name, json_name(j)) != 0)
            continue;
        if (has_type(question, j, members->type))
            return KILN_OK;
        return kiln_fail(err, KILN_INVALID, "'%s' is not %s", members->name, types[members->type]);
    }
    return kiln_fail(err, KILN_INVALID, "the request has an unknown member '%.60s'", json_name(j));
}

enum kiln_code admin_read(const struct frame_header *header, struct bytes body,
                          const struct admin_member *members, struct json **ret_question,
                          struct kiln_err *err)
{
    char origin[64];
    snprintf(origin, sizeof(origin), "body of '%s'", message_name(header->type));
    if (body.size > QUESTION_MAX)
        return kiln_fail(err, KILN_INVALID, "%s has %zu bytes; the maximum is %u", origin,
                         body.size, QUESTION_MAX);
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = json_parse(body.size ? body : bytes_of_text("{}"), origin, &question, err);
    if (rc)
        return rc;
    if (!json_is_object(question))
        return kiln_fail(err, KILN_INVALID, "%s is not a JSON object", origin);
    for (const struct json *j = json_first(question); j; j = json_next(j)) {
        if (check_member(question, j, members, err))
            return kiln_while(err, "%s", origin);
    }
    *ret_question = KILN_TAKE(question);
    return KILN_OK;
}

static struct admin *admin_of(struct deferred *d) { return (struct admin *)d; }

static void release_admin(struct deferred *d)
{
    struct admin *a = admin_of(d);
    free(a->text);
    if (a->own && a->kind->release)
        a->kind->release(a->own);
    free(a->own);
    for (size_t i = 0; i < a->file_count; i++)
        object_unref(a->files[i]);
}

/* Returns whether the request may be destroyed when no step runs. Returns false if the request must
 * still remove files: it then ends by itself after its last step. */
static bool stop_admin(struct deferred *d)
{
    const struct admin *a = admin_of(d);
    return !a->kind->removes || !a->is_begun;
}

static void begin_admin(struct deferred *d)
{
    struct admin *a = admin_of(d);
    a->is_begun = true;
    a->more = false;
    if (a->kind->begin)
        a->kind->begin(a);
}

static void work_admin(struct deferred *d)
{
    struct admin *a = admin_of(d);
    d->rc = a->kind->work(a);
    if (d->rc || a->more || a->kind->finish)
        return;
    a->text = json_print(d->answer, false);
    if (!a->text)
        return;
    json_destroy(d->answer); /* freeing thousands of rows takes time, too */
    d->answer = NULL;
}

static enum kiln_code start_admin(struct admin *a, struct kiln_err *err);

/* Starts the request's next step. Returns false if there is none, or if it cannot start. A request
 * whose kind has |removes| set continues even if its client has left. */
static bool start_next_step(struct admin *a)
{
    struct deferred *d = &a->base;
    if (d->rc || !a->more || (!d->caller && !a->kind->removes))
        return false;
    enum kiln_code rc = start_admin(a, &d->err);
    if (rc)
        d->rc = rc;
    return !rc;
}

static void admin_step_ended(struct deferred *d)
{
    struct admin *a = admin_of(d);
    if (a->kind->ended)
        a->kind->ended(a);
    if (a->kind->work_queue == WORK_QUEUE_WRITE)
        /* KILN_OK, because the answer reports a failure */
        event_after_write(d->engine, KILN_OK, &d->err);
    if (start_next_step(a))
        return;
    deferred_refund(d, d->charged); /* an answer about waiting requests must not include this one */
    if (!d->rc && a->kind->finish)
        a->kind->finish(a);
    deferred_end(d);
}

static void reply_admin(struct deferred *d, struct caller *caller)
{
    struct admin *a = admin_of(d);
    struct reply reply = { .request_id = d->request_id,
                           .objects = a->files,
                           .object_count = a->file_count };
    if (!a->text)
        a->text = json_print(d->answer, false);
    send_text(d->engine, caller, &reply, a->text);
}

static const struct deferred_kind deferred_admin = {
    .size = sizeof(struct admin), .reply = reply_admin, .stop = stop_admin, .release = release_admin
};

#define ADMIN_STEP(work_queue_, is_brief_)                                      \
    {                                                                           \
        .work_queue = work_queue_, .is_brief = is_brief_, .begin = begin_admin, \
        .work = work_admin, .done = admin_step_ended                            \
    }
static const struct deferred_step admin_steps[WORK_QUEUES] = {
    [WORK_QUEUE_READ] = ADMIN_STEP(WORK_QUEUE_READ, false),
    [WORK_QUEUE_WRITE] = ADMIN_STEP(WORK_QUEUE_WRITE, false),
};
static const struct deferred_step brief_step = ADMIN_STEP(WORK_QUEUE_READ, true);

/* Puts a step that scans the store into a request queue. Other steps are short, so the work queues
 * are fair enough for them. */
static enum kiln_code start_admin(struct admin *a, struct kiln_err *err)
{
    const struct deferred_step *step =
        a->kind->is_brief ? &brief_step : &admin_steps[a->kind->work_queue];
    if (a->kind->scans)
        return deferred_enqueue(&a->base, requests_queue(a->base.engine->requests, QUEUE_SCANS),
                                step, err);
    deferred_run(&a->base, step);
    return KILN_OK;
}

static void do_nothing(struct deferred *d) { (void)d; }

static void writes_ended(struct deferred *d)
{
    struct admin *a = admin_of(d);
    a->more = true;
    if (!start_next_step(a))
        deferred_end(d);
}

/* An empty step, because the write queue runs one user's tasks in order. */
static const struct deferred_step wait_for_writes = { .work_queue = WORK_QUEUE_WRITE,
                                                      .work = do_nothing,
                                                      .done = writes_ended };

static enum kiln_code begin_steps(struct admin *a, struct kiln_err *err)
{
    if (!a->kind->follows_writes)
        return start_admin(a, err);
    deferred_run(&a->base, &wait_for_writes);
    return KILN_OK;
}

static enum kiln_code make_own(struct admin *a, struct kiln_err *err)
{
    a->own = a->kind->own_size ? calloc(1, a->kind->own_size) : NULL;
    return a->own || !a->kind->own_size
               ? KILN_OK
               : kiln_fail(err, KILN_NO_MEMORY, "cannot answer: no memory");
}

enum kiln_code admin_run(struct engine *e, const struct request *request,
                         const struct admin_kind *kind, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(request->header, request->body, kind->members, &question, err);
    if (rc)
        return rc;
    struct admin *a =
        deferred_create(&deferred_admin, e, request->caller, request->header->request_id, err);
    if (!a)
        return err->code;
    if (kind->dry_run && json_get_bool(question, "dry_run", false))
        kind = kind->dry_run;
    a->kind = kind;
    a->base.question = KILN_TAKE(question);
    a->base.answer = json_object();
    rc = make_own(a, err);
    if (!rc)
        rc = deferred_join(&a->base, requests_group(e->requests, GROUP_ADMIN), err);
    if (!rc)
        rc = begin_steps(a, err);
    return deferred_wait_or_destroy(&a->base, rc);
}
