/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Uploads. An upload is a request that brings a file, such as a package, a cache of MIOpen or a
 * tuning database.
 *
 * Role       lets kiln-transfer fetch, unpack and check the file (executor_ops.transfer), reports
 *            its progress, then passes the checked file to the functions of the upload's kind.
 *            Refuses uploads beyond the limits of engine/jobs/transfer_limits.h
 * Ownership  an upload lives until its last task is done, even if its caller has left; the staged
 *            file is removed unless it was moved away
 * Threading  the engine's thread; prepare runs on WORK_QUEUE_READ, take on WORK_QUEUE_WRITE
 */
#include "engine/service/requests/admin.h"

struct upload;

struct upload_kind {
    const struct admin_member *members; /* members that the question may have */
    enum transfer_tier tier;            /* the kind of transfer in the metrics */
    bool of_user;                       /* see transfer_job.of_user */
    uint64_t size_limit; /* maximum bytes of the file; 0: the limit of packages or caches */
    bool unchecked;      /* see transfer_job.unchecked; if set, the second file is not a manifest */
    /* Called on the engine's thread when the file has arrived at transfer.result.path, instead of
     * prepare and take. It calls upload_next or, at the end, upload_end. May be NULL. */
    void (*pass)(struct upload *u);
    /* Called on WORK_QUEUE_READ before each take. Does the part of the work that does not write to
     * the store. May be NULL. */
    enum kiln_code (*prepare)(struct upload *u, struct kiln_err *err);
    bool in_turn; /* |prepare| runs for one upload at a time, in fair order between users */
    /* Called on WORK_QUEUE_WRITE. Stores some of the checked file's content. It sets *ret_more to
     * be called again. */
    enum kiln_code (*take)(struct upload *u, bool *ret_more, struct kiln_err *err);
    /* Called on the engine's thread after each take, even a failed one. A failure ends the upload.
     * May be NULL. */
    enum kiln_code (*taken)(struct upload *u, struct kiln_err *err);
    /* Called on the engine's thread at the end, even if the upload failed after its transfer. May
     * be NULL. */
    void (*finish)(struct upload *u);
    /* Frees |state| at the end, on WORK_QUEUE_READ. May be NULL if there is no state. */
    void (*state_destroy)(void *state);
};

struct upload {
    /* First member; |transfer| borrows from the question, |take| fills the answer. */
    struct deferred base;
    struct transfer_task transfer;
    const struct upload_kind *kind;
    int files[LIMIT_REQUEST_FILES]; /* owned; -1: none */
    bool more;
    bool has_arrived; /* the transfer has ended */
    void *state;      /* owned; |take| keeps its progress in it */
};

/* Returns the size limit of a file that any user may upload. |kind_limit| is
 * upload_kind.size_limit. */
uint64_t upload_limit_of_user(const struct engine *e, uint64_t kind_limit);
/* Defers the request, and takes ownership of |question|. If |question| has a member "url",
 * kiln-transfer fetches that URL; otherwise it copies the file that came with the request. */
KILN_MUST_CHECK enum kiln_code upload_begin(struct engine *e, const struct request *request,
                                            const struct upload_kind *kind, struct json *question,
                                            struct kiln_err *err);
/* Answers with rc and err of |u|, then destroys it.  The file and |state| are removed on
 * WORK_QUEUE_READ. */
void upload_end(struct upload *u);
/* Fetches the file number |index| (from 0) that came with the request; |name| is its name. |pass|
 * is called again when the file has arrived. */
void upload_next(struct upload *u, unsigned index, const char *name);
/* Sends |progress| to the caller, unless the caller has left. */
void upload_report(struct upload *u, const struct transfer_progress *progress);
/* Call it when the staged file was moved away. */
void upload_taken(struct upload *u);
/* Cancels the transfers of all uploads. */
void uploads_cancel(struct engine *e);
/* Returns whether there is no upload. */
bool uploads_idle(const struct engine *e);
