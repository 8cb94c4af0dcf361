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
    /* Called when the queue serves the query. Creates query->change.job. NULL: the query has no
     * job, only |work|. */
    enum kiln_code (*begin)(struct tuning_query *query, struct tuning *tuning,
                            struct kiln_err *err);
    /* Does one step. It sets query->change.more to be called again; it is not called again if the
     * caller has left. */
    enum kiln_code (*work)(struct tuning_query *query, struct tuning *tuning, struct kiln_err *err);
    /* Called after |work| succeeded: fills the answer, or sets base.rc and base.err. May be
     * NULL. */
    void (*finish)(struct tuning_query *query);
    void (*state_done)(void *state); /* frees what the state owns; may be NULL */
    size_t state_size;               /* bytes of query->state, which is zeroed */
};

struct tuning_query {
    struct deferred base; /* first member; in the group |admin| */
    struct tuning_change change;
    const struct tuning_query_kind *kind;
    struct tuning_progress *progress;      /* owned */
    struct object *files[ADMIN_FILES_MAX]; /* owned references; descriptors of the answer */
    size_t file_count;
    struct export_space space; /* reserved for the file that is being written */
    void *state;               /* owned; the kind decides its type */
};

KILN_MUST_CHECK enum kiln_code tuning_query_run(struct engine *e, const struct request *request,
                                                const struct tuning_query_kind *kind,
                                                struct kiln_err *err);
/* Defines the handler of the request |name_|, which only calls tuning_query_run. */
#define TUNING_QUERY_HANDLER(name_, kind_)                                                    \
    enum kiln_code handle_##name_(struct engine *e, struct caller *caller,                    \
                                  const struct frame_header *header, struct bytes body,       \
                                  struct kiln_err *err)                                       \
    {                                                                                         \
        return tuning_query_run(e, &(struct request){ caller, header, body }, &(kind_), err); \
    }
/* Writes an unused path in the staging directory for a file of this request. */
void tuning_query_path(const struct tuning_query *query, char *ret_path, size_t size);
/* Reserves space before a file grows to |bytes|. Call it on the work queue. KILN_BUSY or KILN_FULL:
 * there is no space. KILN_CANCELLED: the caller has left. */
KILN_MUST_CHECK enum kiln_code tuning_query_reserve_space(struct tuning_query *query,
                                                          uint64_t bytes, struct kiln_err *err);
/* Adds the file at |path| to the answer. Removes its name from the directory, even on failure. */
KILN_MUST_CHECK enum kiln_code tuning_query_send_file(struct tuning_query *query, const char *path,
                                                      uint64_t *ret_bytes, struct kiln_err *err);
/* Sends the next frame of |progress| to the caller of |request|. Returns false if there is none, or
 * if the caller has left. If the caller has left, also stops |progress|. */
bool tuning_send_progress(const struct deferred *request, struct tuning_progress *progress);
/* Sets |name| in the answer unless |count| is 0. */
void tuning_set_count(struct json *answer, const char *name, uint64_t count);
