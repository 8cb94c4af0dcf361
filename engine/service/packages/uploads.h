/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Uploads. An upload is a request that brings a file, such as a package, a cache of MIOpen or a
 * tuning database.
 *
 * Role       lets kiln-transfer fetch, unpack and check the file (executor_ops.transfer), then
 *            passes the checked file to the functions of the upload's kind
 * Ownership  an upload lives until its last task is done, even if its caller has left; the staged
 *            file is removed unless it was moved away
 * Threading  the engine's thread; prepare runs on WORK_QUEUE_READ, take on WORK_QUEUE_WRITE
 */
#include "engine/service/requests/admin.h"

struct upload;

struct upload_kind {
    const struct admin_member *members;
    enum transfer_tier tier;
    bool of_user; /* see transfer_job.of_user */
    /* bytes; 0: only the limit for packages or caches (packages_state.h) holds */
    uint64_t size_limit;
    bool unchecked; /* see transfer_job.unchecked; if set, the second file is not a manifest */
    /* Called on the engine's thread when the file has arrived, instead of prepare and take. Must
     * call upload_next or, at the end, upload_end. May be NULL. */
    void (*pass)(struct upload *u);
    /* Called on WORK_QUEUE_READ before each take. Does not write to the store. May be NULL. */
    enum kiln_code (*prepare)(struct upload *u, struct kiln_err *err);
    bool in_turn; /* |prepare| runs for one upload at a time, in fair order between users */
    /* Called on WORK_QUEUE_WRITE. Stores some of the content. Sets *ret_more to be called again. */
    enum kiln_code (*take)(struct upload *u, bool *ret_more, struct kiln_err *err);
    /* Called on the engine's thread after each take. A failure ends the upload. May be NULL. */
    enum kiln_code (*taken)(struct upload *u, struct kiln_err *err);
    /* Called on the engine's thread at the end, even after a failure. May be NULL. */
    void (*finish)(struct upload *u);
    /* Frees |state| on WORK_QUEUE_READ. May be NULL if there is no state. */
    void (*state_destroy)(void *state);
};

struct upload {
    struct deferred base;
    struct transfer_task transfer;
    const struct upload_kind *kind;
    int files[LIMIT_REQUEST_FILES]; /* owned; -1: none */
    bool more;
    bool has_arrived;
    void *state;
};

/* Returns the maximum size of a file that any user may upload. |kind_limit| is
 * upload_kind.size_limit. */
uint64_t upload_limit_of_user(const struct engine *e, uint64_t kind_limit);
/* Takes ownership of |question|. Fetches the URL in its member "url", or else copies the file
 * that came with the request. */
KILN_MUST_CHECK enum kiln_code upload_begin(struct engine *e, const struct request *request,
                                            const struct upload_kind *kind, struct json *question,
                                            struct kiln_err *err);
void upload_end(struct upload *u);
/* Starts the transfer of another file; |index| counts from 0. |pass| is called again when that
 * file has arrived. */
void upload_next(struct upload *u, unsigned index, const char *name);
/* Does nothing if the caller has left. */
void upload_report(struct upload *u, const struct transfer_progress *progress);
/* Call this function when the staged file was moved away. */
void upload_taken(struct upload *u);
void uploads_cancel(struct engine *e);
bool uploads_idle(const struct engine *e);
