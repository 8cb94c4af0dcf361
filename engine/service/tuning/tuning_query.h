/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Administrative JSON requests that wait in the queue of tuning changes.
 *
 * Role       reads and checks the question, queues it as a change, reports its progress, sends the
 *            answer
 * Ownership  a query frees itself once it is answered, or when its caller leaves before the query
 *            has begun
 * Threading  |work| runs on WORK_QUEUE_TUNING, everything else on the engine's thread
 */
#include "engine/service/requests/admin.h"
#include "engine/service/requests/exported_files.h"
#include "engine/service/tuning/tuning_progress.h"
#include "engine/service/tuning/tuning_queue.h"
#include "engine/service/tuning/tuning_service.h"
#include "engine/service/tuning/tuning_validation.h"

struct tuning_query;

struct tuning_query_kind {
    const struct admin_member *members;
    /* Checks the question and the caller's rights before the query waits. May be NULL. */
    enum kiln_code (*check)(struct tuning_query *query, struct kiln_err *err);
    /* Creates query->change.job when the queue serves the query. NULL: only |work| runs. */
    enum kiln_code (*begin)(struct tuning_query *query, struct tuning *tuning,
                            struct kiln_err *err);
    /* Does one step. Sets query->change.more to be called again, unless the caller has left. */
    enum kiln_code (*work)(struct tuning_query *query, struct tuning *tuning, struct kiln_err *err);
    /* Fills the answer after |work|, or sets base.rc and base.err. May be NULL. */
    void (*finish)(struct tuning_query *query);
    void (*state_done)(void *state); /* frees what the state owns; may be NULL */
    size_t state_size;
};

struct tuning_query {
    struct deferred base;
    struct tuning_change change;
    const struct tuning_query_kind *kind;
    struct tuning_progress *progress;
    struct object *files[ADMIN_FILES_MAX]; /* owned references; descriptors of the answer */
    size_t file_count;
    struct export_space space;
    void *state;
};

KILN_MUST_CHECK enum kiln_code tuning_query_run(struct engine *e, const struct request *request,
                                                const struct tuning_query_kind *kind,
                                                struct kiln_err *err);
#define TUNING_QUERY_HANDLER(name_, kind_)                                                    \
    enum kiln_code handle_##name_(struct engine *e, struct caller *caller,                    \
                                  const struct frame_header *header, struct bytes body,       \
                                  struct kiln_err *err)                                       \
    {                                                                                         \
        return tuning_query_run(e, &(struct request){ caller, header, body }, &(kind_), err); \
    }
/* Writes an unused path in the staging directory. */
void tuning_query_path(const struct tuning_query *query, char *ret_path, size_t size);
/* Reserves space, on the work queue, before a file grows. Returns KILN_BUSY or KILN_FULL if
 * there is no space, and KILN_CANCELLED if the caller has left. */
KILN_MUST_CHECK enum kiln_code tuning_query_reserve_space(struct tuning_query *query,
                                                          uint64_t bytes, struct kiln_err *err);
/* Adds the file to the answer, and removes its name, even on failure. */
KILN_MUST_CHECK enum kiln_code tuning_query_send_file(struct tuning_query *query, const char *path,
                                                      uint64_t *ret_bytes, struct kiln_err *err);
/* Sends the next frame of |progress|. Returns false if there is none. If the caller has left, stops
 * |progress| and returns false. */
bool tuning_send_progress(const struct deferred *request, struct tuning_progress *progress);
/* Does nothing if |count| is 0. */
void tuning_set_count(struct json *answer, const char *name, uint64_t count);
