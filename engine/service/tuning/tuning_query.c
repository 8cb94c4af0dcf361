/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_query.h"

#include "engine/service/requests/handed_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tuning_query *query_of(struct tuning_change *change)
{
    return (struct tuning_query *)(void *)((char *)change - offsetof(struct tuning_query, change));
}

static void query_destroy(struct tuning_query *query)
{
    service_waiter_remove(&query->waiter);
    admin_place_give(&query->place);
    json_destroy(query->question);
    json_destroy(query->answer);
    tuning_progress_destroy(query->progress);
    for (size_t i = 0; i < query->file_count; i++)
        object_unref(query->files[i]);
    if (query->state && query->kind->state_done)
        query->kind->state_done(query->state);
    free(query->state);
    free(query);
}

bool tuning_send_progress(struct service_waiter *waiter, struct tuning_progress *progress)
{
    if (!waiter->caller) {
        tuning_progress_stop(progress);
        return false;
    }
    KILN_AUTO(json) struct json *frame = tuning_progress_take(progress);
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

static enum kiln_code query_begin(struct tuning_change *change, struct tuning *tuning,
                                  struct kiln_err *err)
{
    struct tuning_query *query = query_of(change);
    if (!query->waiter.caller) /* it left between two steps */
        return err->code = KILN_CANCELLED;
    return query->kind->begin ? query->kind->begin(query, tuning, err) : KILN_OK;
}

static enum kiln_code query_work(struct tuning_change *change, struct tuning *tuning,
                                 struct kiln_err *err)
{
    struct tuning_query *query = query_of(change);
    return query->kind->work ? query->kind->work(query, tuning, err) : KILN_OK;
}

static bool query_send_progress(struct tuning_change *change)
{
    return tuning_send_progress(&query_of(change)->waiter, query_of(change)->progress);
}

static void query_ended(struct tuning_change *change)
{
    struct tuning_query *query = query_of(change);
    struct engine *e = change->engine;
    struct caller *caller = query->waiter.caller;
    uint64_t id = query->waiter.request_id;
    service_waiter_remove(&query->waiter);
    if (change->rc && !change->err.code)
        change->err.code = change->rc;
    if (!change->rc && query->kind->finish)
        query->kind->finish(query);
    tuning_set_count(query->answer, "left_out", tuning_progress_left_out(query->progress));
    if (caller && change->rc)
        service_refuse(e, caller, id, &change->err, NULL);
    else if (caller)
        admin_send_files(e, caller, id, query->answer, query->files, query->file_count);
    query_destroy(query);
}

static const struct tuning_change_kind change_kind = { .begin = query_begin,
                                                       .work = query_work,
                                                       .send_progress = query_send_progress,
                                                       .ended = query_ended };

/* Nobody wants the answer: what has not begun does not begin. */
static void cancel_query(struct service_waiter *w)
{
    struct tuning_query *query = (struct tuning_query *)w;
    service_waiter_remove(w);
    if (tuning_queue_withdraw(&query->change))
        query_destroy(query);
}

static enum kiln_code prepare(struct tuning_query *query, struct engine *e, struct caller *caller,
                              struct kiln_err *err)
{
    enum kiln_code rc = tuning_ready(e, err);
    query->change.engine = e;
    query->change.kind = &change_kind;
    query->uid = caller->uid;
    query->role = caller->role;
    query->answer = json_object();
    if (!rc && query->kind->state_size > 0 && !(query->state = calloc(1, query->kind->state_size)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    if (!rc)
        rc = tuning_progress_create(&query->progress, err);
    if (!rc && query->kind->check)
        rc = query->kind->check(query, err);
    if (!rc)
        rc = admin_place_take(&query->place, e, caller, err);
    return rc;
}

enum kiln_code tuning_query_run(struct engine *e, struct caller *caller,
                                const struct frame_header *header, struct bytes body,
                                const struct tuning_query_kind *kind, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(header, body, kind->members, &question, err);
    if (rc)
        return rc;
    struct tuning_query *query = calloc(1, sizeof(*query));
    if (!query)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    query->kind = kind;
    query->question = KILN_TAKE(question);
    rc = prepare(query, e, caller, err);
    if (rc) {
        query_destroy(query);
        return rc;
    }
    query->change.events = tuning_progress_events(query->progress);
    service_waiter_add(&query->waiter, e, caller, header->request_id, cancel_query);
    rc = tuning_queue_add(e, caller->uid, &query->change, err);
    if (rc)
        query_destroy(query);
    return rc;
}

void tuning_query_path(const struct tuning_query *query, char *ret_path, size_t size)
{
    snprintf(ret_path, size, "%s/tuning-%p-%zu", query->change.engine->staging, (const void *)query,
             query->file_count);
}

static struct handed_to handed_to_of(const struct tuning_query *query)
{
    return (struct handed_to){ .uid = query->uid, .is_admin = query->role == ROLE_ADMIN };
}

enum kiln_code tuning_query_check_space(const struct tuning_query *query, uint64_t bytes,
                                        struct kiln_err *err)
{
    const struct engine *e = query->change.engine;
    const struct handed_to to = handed_to_of(query);
    if (tuning_progress_is_stopped(query->progress))
        return err->code = KILN_CANCELLED;
    return handed_files_check(e->handed, e->staging, &to, bytes, err);
}

enum kiln_code tuning_query_send_file(struct tuning_query *query, const char *path,
                                      uint64_t *ret_bytes, struct kiln_err *err)
{
    const struct handed_to to = handed_to_of(query);
    struct stat seen;
    enum kiln_code rc = stat(path, &seen) == 0
                            ? tuning_query_check_space(query, (uint64_t)seen.st_size, err)
                            : kiln_fail_errno(err, errno, "cannot read '%s'", path);
    if (!rc)
        rc = handed_files_give(query->change.engine->handed, path, &to,
                               &query->files[query->file_count], err);
    unlink(path);
    if (!rc)
        *ret_bytes = query->files[query->file_count++]->size;
    return rc;
}
