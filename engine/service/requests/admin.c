/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/admin.h"

#include <stdio.h>
#include <string.h>

/* No question is longer; parsing megabytes would hold up everybody else. */
#define QUESTION_MOST (64u << 10)
/* Of one user, waiting or running. */
#define UNANSWERED_MOST 4
#define UNANSWERED_MOST_ADMIN 32

const struct admin_member admin_no_members[] = { { 0 } };

static void send_text(struct engine *e, struct caller *caller, struct reply *reply,
                      const char *text)
{
    if (!text || strlen(text) > LIMIT_FRAME_BODY) {
        struct kiln_err why = { .code = KILN_NO_MEMORY, .text = "cannot build the answer" };
        service_refuse(e, caller, reply->request_id, &why, NULL);
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

void admin_send_files(struct engine *e, struct caller *caller, uint64_t id,
                      const struct json *answer, struct object *const *files, size_t file_count)
{
    KILN_AUTO(mem) char *text = json_print(answer, false);
    struct reply reply = { .request_id = id, .objects = files, .object_count = file_count };
    send_text(e, caller, &reply, text);
}

/* ---- the question ---- */

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
    return kiln_fail(err, KILN_INVALID, "'%.60s' is no member of it", json_name(j));
}

enum kiln_code admin_read(const struct frame_header *header, struct bytes body,
                          const struct admin_member *members, struct json **ret_question,
                          struct kiln_err *err)
{
    char origin[64];
    snprintf(origin, sizeof(origin), "body of '%s'", message_name(header->type));
    if (body.size > QUESTION_MOST)
        return kiln_fail(err, KILN_INVALID, "%s has %zu bytes, %u are the most", origin, body.size,
                         QUESTION_MOST);
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

/* ---- how many ---- */

static unsigned count_of_uid(const struct engine *e, uid_t uid)
{
    unsigned count = 0;
    for (const struct admin_place *p = e->admin_places; p; p = p->next)
        count += p->uid == uid;
    return count;
}

enum kiln_code admin_place_take(struct admin_place *place, struct engine *e,
                                const struct caller *caller, struct kiln_err *err)
{
    unsigned most = caller->role == ROLE_ADMIN ? UNANSWERED_MOST_ADMIN : UNANSWERED_MOST;
    unsigned count = count_of_uid(e, caller->uid);
    if (count >= most)
        return kiln_fail(err, KILN_BUSY,
                         "%u administrative requests of user %u are unanswered, %u may be: ask "
                         "again when they are done",
                         count, (unsigned)caller->uid, most);
    *place = (struct admin_place){ .engine = e, .uid = caller->uid, .next = e->admin_places };
    e->admin_places = place;
    return KILN_OK;
}

void admin_place_give(struct admin_place *place)
{
    if (!place->engine)
        return;
    struct admin_place **at = &place->engine->admin_places;
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    place->engine = NULL;
}

/* ---- running on a lane ---- */

static void admin_destroy(struct admin *a)
{
    service_waiter_remove(&a->waiter);
    admin_place_give(&a->place);
    json_destroy(a->question);
    json_destroy(a->answer);
    free(a->text);
    ledger_destroy(a->books);
    for (size_t i = 0; i < a->file_count; i++)
        object_unref(a->files[i]);
    free(a->damaged);
    free(a);
}

static struct admin *admin_of_task(struct task *t)
{
    return (struct admin *)(void *)((char *)t - offsetof(struct admin, task));
}

/* Scans of the whole store take turns, so that they do not take every reader from the fetches that
 * look up one kernel; and what is quick does not wait for them, nor for the write lane. */
static struct admin_turn *turn_of(const struct admin *a)
{
    bool slow = a->kind->scans || a->kind->lane == LANE_WRITE;
    return &a->engine->admin_turns[slow ? ADMIN_SCANS : ADMIN_QUICK];
}

static void start_next(struct admin_turn *turn)
{
    struct admin *a = turn->waiting;
    if (!a || turn->running)
        return;
    turn->waiting = a->next_waiting;
    turn->running = a;
    if (a->kind->begin)
        a->kind->begin(a);
    engine_run(a->engine, a->kind->lane, &a->task);
}

static void wait_for_turn(struct admin *a)
{
    struct admin **at = &turn_of(a)->waiting;
    while (*at)
        at = &(*at)->next_waiting;
    *at = a;
}

/* Nobody wants the answer: what has not begun does not begin. */
static void cancel_admin(struct service_waiter *w)
{
    struct admin *a = (struct admin *)w;
    struct admin_turn *turn = turn_of(a);
    service_waiter_remove(w);
    if (turn->running == a)
        return; /* freed in done */
    struct admin **at = &turn->waiting;
    while (*at != a)
        at = &(*at)->next_waiting;
    *at = a->next_waiting;
    admin_destroy(a);
}

static void admin_work(struct task *task)
{
    struct admin *a = admin_of_task(task);
    a->rc = a->kind->work(a);
    if (a->rc || a->kind->finish)
        return;
    a->text = json_print(a->answer, false);
    if (!a->text)
        return;
    json_destroy(a->answer); /* thousands of rows take their time, too */
    a->answer = NULL;
}

static void admin_done(struct task *task)
{
    struct admin *a = admin_of_task(task);
    struct engine *e = a->engine;
    struct admin_turn *turn = turn_of(a);
    engine_task_ended(e);
    turn->running = NULL;
    start_next(turn);
    if (!a->rc && a->kind->finish)
        a->kind->finish(a);
    if (a->kind->ended)
        a->kind->ended(a);
    if (a->kind->lane == LANE_WRITE)
        event_after_write(e, KILN_OK, &a->err); /* a failure is the asker's to hear */
    struct caller *caller = a->waiter.caller;
    uint64_t id = a->waiter.request_id;
    service_waiter_remove(&a->waiter);
    if (!a->err.code)
        a->err.code = a->rc; /* an answer without a sentence */
    struct reply reply = { .request_id = id, .objects = a->files, .object_count = a->file_count };
    if (caller && !a->rc && !a->text)
        a->text = json_print(a->answer, false);
    if (caller && a->rc)
        service_refuse(e, caller, id, &a->err, NULL);
    else if (caller)
        send_text(e, caller, &reply, a->text);
    admin_destroy(a);
}

enum kiln_code admin_run(struct engine *e, struct caller *caller, const struct frame_header *header,
                         struct bytes body, const struct admin_kind *kind, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, kind->members, &question, err);
    if (rc)
        return rc;
    struct admin *a = calloc(1, sizeof(*a));
    if (!a)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request '%s'",
                         message_name(header->type));
    rc = admin_place_take(&a->place, e, caller, err);
    if (rc) {
        free(a);
        return rc;
    }
    a->engine = e;
    a->kind = kind;
    a->question = KILN_TAKE(question);
    a->answer = json_object();
    a->uid = caller->uid;
    a->is_admin = caller->role == ROLE_ADMIN;
    a->toolchains_known = e->described;
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++)
        a->toolchains[a->toolchain_count++] = toolchain_table_at(e->toolchains, i)->identity;
    a->err = KILN_ERR_INIT;
    a->task = (struct task){ .work = admin_work, .done = admin_done };
    service_waiter_add(&a->waiter, e, caller, header->request_id, cancel_admin);
    wait_for_turn(a);
    start_next(turn_of(a));
    return KILN_OK;
}
