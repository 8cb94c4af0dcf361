/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_ask.h"

#include "engine/service/requests/handed_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tuning_ask *ask_of(struct tuning_turn *turn)
{
    return (struct tuning_ask *)(void *)((char *)turn - offsetof(struct tuning_ask, turn));
}

static void ask_destroy(struct tuning_ask *ask)
{
    service_waiter_remove(&ask->waiter);
    admin_place_give(&ask->place);
    json_destroy(ask->question);
    json_destroy(ask->answer);
    tuning_news_destroy(ask->news);
    for (size_t i = 0; i < ask->file_count; i++)
        object_unref(ask->files[i]);
    if (ask->state && ask->kind->state_done)
        ask->kind->state_done(ask->state);
    free(ask->state);
    free(ask);
}

bool tuning_tell(struct service_waiter *waiter, struct tuning_news *news)
{
    if (!waiter->caller) {
        tuning_news_stop(news);
        return false;
    }
    KILN_AUTO(json) struct json *frame = tuning_news_take(news);
    if (!frame)
        return false;
    admin_send(waiter->engine, waiter->caller, waiter->request_id, frame, FRAME_MORE);
    return true;
}

void tuning_set_count(struct json *answer, const char *name, uint64_t count)
{
    if (count > 0)
        json_set_u64(answer, name, count);
}

static enum kiln_code ask_begin(struct tuning_turn *turn, struct tuning *tuning,
                                struct kiln_err *err)
{
    struct tuning_ask *ask = ask_of(turn);
    if (!ask->waiter.caller) /* it left between two steps */
        return err->code = KILN_CANCELLED;
    return ask->kind->begin ? ask->kind->begin(ask, tuning, err) : KILN_OK;
}

static enum kiln_code ask_work(struct tuning_turn *turn, struct tuning *tuning,
                               struct kiln_err *err)
{
    struct tuning_ask *ask = ask_of(turn);
    return ask->kind->work ? ask->kind->work(ask, tuning, err) : KILN_OK;
}

static bool ask_tell(struct tuning_turn *turn)
{
    return tuning_tell(&ask_of(turn)->waiter, ask_of(turn)->news);
}

static void ask_ended(struct tuning_turn *turn)
{
    struct tuning_ask *ask = ask_of(turn);
    struct engine *e = turn->engine;
    struct caller *caller = ask->waiter.caller;
    uint64_t id = ask->waiter.request_id;
    service_waiter_remove(&ask->waiter);
    if (turn->rc && !turn->err.code)
        turn->err.code = turn->rc;
    if (!turn->rc && ask->kind->finish)
        ask->kind->finish(ask);
    tuning_set_count(ask->answer, "left_out", tuning_news_left_out(ask->news));
    if (caller && turn->rc)
        service_refuse(e, caller, id, &turn->err, NULL);
    else if (caller)
        admin_send_files(e, caller, id, ask->answer, ask->files, ask->file_count);
    ask_destroy(ask);
}

static const struct tuning_turn_kind turn_kind = {
    .begin = ask_begin, .work = ask_work, .tell = ask_tell, .ended = ask_ended
};

/* Nobody wants the answer: what has not begun does not begin. */
static void cancel_ask(struct service_waiter *w)
{
    struct tuning_ask *ask = (struct tuning_ask *)w;
    service_waiter_remove(w);
    if (tuning_queue_withdraw(&ask->turn))
        ask_destroy(ask);
}

static enum kiln_code prepare(struct tuning_ask *ask, struct engine *e, struct caller *caller,
                              struct kiln_err *err)
{
    enum kiln_code rc = tuning_ready(e, err);
    ask->turn.engine = e;
    ask->turn.kind = &turn_kind;
    ask->uid = caller->uid;
    ask->role = caller->role;
    ask->answer = json_object();
    if (!rc && ask->kind->state_size > 0 && !(ask->state = calloc(1, ask->kind->state_size)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    if (!rc)
        rc = tuning_news_create(&ask->news, err);
    if (!rc && ask->kind->check)
        rc = ask->kind->check(ask, err);
    if (!rc)
        rc = admin_place_take(&ask->place, e, caller, err);
    return rc;
}

enum kiln_code tuning_ask_run(struct engine *e, struct caller *caller,
                              const struct frame_header *header, struct bytes body,
                              const struct tuning_ask_kind *kind, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, kind->members, &question, err);
    if (rc)
        return rc;
    struct tuning_ask *ask = calloc(1, sizeof(*ask));
    if (!ask)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    ask->kind = kind;
    ask->question = KILN_TAKE(question);
    rc = prepare(ask, e, caller, err);
    if (rc) {
        ask_destroy(ask);
        return rc;
    }
    ask->turn.events = tuning_news_events(ask->news);
    service_waiter_add(&ask->waiter, e, caller, header->request_id, cancel_ask);
    rc = tuning_queue_add(e, caller->uid, &ask->turn, err);
    if (rc)
        ask_destroy(ask);
    return rc;
}

void tuning_ask_path(const struct tuning_ask *ask, char *ret_path, size_t size)
{
    snprintf(ret_path, size, "%s/tuning-%p-%zu", ask->turn.engine->staging, (const void *)ask,
             ask->file_count);
}

static struct handed_to handed_to_of(const struct tuning_ask *ask)
{
    return (struct handed_to){ .uid = ask->uid, .is_admin = ask->role == ROLE_ADMIN };
}

enum kiln_code tuning_ask_room(const struct tuning_ask *ask, uint64_t bytes, struct kiln_err *err)
{
    const struct engine *e = ask->turn.engine;
    const struct handed_to to = handed_to_of(ask);
    if (tuning_news_is_stopped(ask->news))
        return err->code = KILN_CANCELLED;
    return handed_files_check(e->handed, e->staging, &to, bytes, err);
}

enum kiln_code tuning_ask_send_file(struct tuning_ask *ask, const char *path, uint64_t *ret_bytes,
                                    struct kiln_err *err)
{
    const struct handed_to to = handed_to_of(ask);
    struct stat seen;
    enum kiln_code rc = stat(path, &seen) == 0
                            ? tuning_ask_room(ask, (uint64_t)seen.st_size, err)
                            : kiln_fail_errno(err, errno, "cannot read '%s'", path);
    if (!rc)
        rc = handed_files_give(ask->turn.engine->handed, path, &to, &ask->files[ask->file_count],
                               err);
    unlink(path);
    if (!rc)
        *ret_bytes = ask->files[ask->file_count++]->size;
    return rc;
}
