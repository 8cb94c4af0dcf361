/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_query.h"

#include "engine/service/packages/packages.h"
#include "engine/service/requests/exported_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tuning_query *query_of(struct tuning_change *change)
{
    return LIST_ENTRY(change, struct tuning_query, change);
}

bool tuning_send_progress(const struct deferred *d, struct tuning_progress *progress)
{
    if (!d->caller) {
        tuning_progress_stop(progress);
        return false;
    }
    KILN_AUTO(json) struct json *frame = NULL;
    if (!tuning_progress_take(progress, &frame))
        return false;
    admin_send(d->engine, d->caller, d->request_id, frame, FRAME_MORE);
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
    if (!query->base.caller)
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
    return tuning_send_progress(change->request, query_of(change)->progress);
}

static void query_ended(struct tuning_change *change)
{
    struct tuning_query *query = query_of(change);
    struct deferred *d = &query->base;
    if (!d->rc && query->kind->finish)
        query->kind->finish(query);
    tuning_set_count(d->answer, "left_out", tuning_progress_left_out(query->progress));
    deferred_end(d);
}

static const struct tuning_change_kind change_kind = { .begin = query_begin,
                                                       .work = query_work,
                                                       .send_progress = query_send_progress,
                                                       .ended = query_ended };

static void reply_with_files(struct deferred *d, struct caller *caller)
{
    const struct tuning_query *query = (const struct tuning_query *)d;
    admin_send_files(d, caller, query->files, query->file_count);
}

static bool stop_query(struct deferred *d)
{
    return tuning_queue_may_stop(&((struct tuning_query *)d)->change);
}

static void release_query(struct deferred *d)
{
    struct tuning_query *query = (struct tuning_query *)d;
    tuning_progress_destroy(query->progress);
    export_space_release(&query->space);
    for (size_t i = 0; i < query->file_count; i++)
        object_unref(query->files[i]);
    if (query->state && query->kind->state_done)
        query->kind->state_done(query->state);
    free(query->state);
}

static const struct deferred_kind deferred_query = { .size = sizeof(struct tuning_query),
                                                     .reply = reply_with_files,
                                                     .stop = stop_query,
                                                     .release = release_query };

static enum kiln_code prepare_query(struct tuning_query *query, struct kiln_err *err)
{
    struct deferred *d = &query->base;
    enum kiln_code rc = tuning_ready(d->engine, err);
    query->change.request = d;
    query->change.kind = &change_kind;
    d->answer = json_object();
    if (!rc && query->kind->state_size > 0 && !(query->state = calloc(1, query->kind->state_size)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
    if (!rc)
        rc = tuning_progress_create(&query->progress, err);
    if (!rc && query->kind->check)
        rc = query->kind->check(query, err);
    if (!rc)
        rc = deferred_join(d, requests_group(d->engine->requests, GROUP_ADMIN), err);
    return rc;
}

enum kiln_code tuning_query_run(struct engine *e, const struct request *request,
                                const struct tuning_query_kind *kind, struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = admin_read(request->header, request->body, kind->members, &question, err);
    if (rc)
        return rc;
    struct tuning_query *query =
        deferred_create(&deferred_query, e, request->caller, request->header->request_id, err);
    if (!query)
        return err->code;
    query->kind = kind;
    query->base.question = KILN_TAKE(question);
    rc = prepare_query(query, err);
    if (!rc) {
        query->change.events = tuning_progress_events(query->progress);
        deferred_wait(&query->base);
        rc = tuning_queue_add(&query->change, err);
    }
    if (rc)
        deferred_destroy(&query->base);
    return rc;
}

void tuning_query_path(const struct tuning_query *query, char *ret_path, size_t size)
{
    snprintf(ret_path, size, "%s/tuning-%p-%zu", packages_staging(query->base.engine),
             (const void *)query, query->file_count);
}

enum kiln_code tuning_query_reserve_space(struct tuning_query *query, uint64_t bytes,
                                          struct kiln_err *err)
{
    const struct engine *e = query->base.engine;
    query->space.to = (struct export_receiver){ .uid = query->base.uid,
                                                .is_admin = query->base.role == ROLE_ADMIN };
    if (tuning_progress_is_stopped(query->progress))
        return err->code = KILN_CANCELLED;
    return exported_files_reserve(e->exported, packages_staging(e), bytes, &query->space, err);
}

enum kiln_code tuning_query_send_file(struct tuning_query *query, const char *path,
                                      uint64_t *ret_bytes, struct kiln_err *err)
{
    struct stat seen;
    enum kiln_code rc = stat(path, &seen) == 0
                            ? tuning_query_reserve_space(query, (uint64_t)seen.st_size, err)
                            : kiln_fail_errno(err, errno, "cannot read '%s'", path);
    if (!rc)
        rc = exported_files_open(query->base.engine->exported, path, &query->space,
                                 &query->files[query->file_count], err);
    unlink(path);
    if (!rc)
        *ret_bytes = query->files[query->file_count++]->size;
    return rc;
}
