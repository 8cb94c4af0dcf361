/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files on their way in: packages to install, MIOpen's caches to import.
 *
 * Role       has kiln-transfer fetch, unpack and check a file (the executor's transfer), tells its
 *            progress, then hands the checked file to what wants it
 * Ownership  an arrival lives until its last task is done, also when its caller left; the staged
 *            file is removed unless it was moved away
 * Threading  the engine's thread; check runs on a read lane, take on the write lane
 */
#include "engine/service/requests/admin.h"

struct arrival;

struct arrival_kind {
    const struct admin_member *members; /* of the question */
    enum transfer_tier tier;            /* as its transfers are counted */
    bool salvage;                       /* as transfer_job.salvage */
    uint64_t size_limit; /* bytes of the file; 0: as large as a package or a cache may be */
    bool unchecked;      /* as transfer_job.unchecked; the second file is no manifest */
    /* Instead of check and take, on the engine's thread: the file is at transfer.outcome.path;
     * calls arrival_next or, in the end, arrival_end.  May be NULL. */
    void (*pass)(struct arrival *a);
    /* Once, on a read lane, before the first take: what reads the whole file; may be NULL. */
    enum kiln_code (*check)(struct arrival *a, struct kiln_err *err);
    /* On the write lane, again and again until *ret_more stays false: takes the checked file. */
    enum kiln_code (*take)(struct arrival *a, bool *ret_more, struct kiln_err *err);
    /* On the engine's thread after it; may be NULL. */
    void (*finish)(struct arrival *a);
    /* On the engine's thread after each take that ended well or badly; may be NULL. */
    void (*taken)(struct arrival *a);
    /* Of |state|, at the end, on a read lane; may be NULL where there is none. */
    void (*state_destroy)(void *state);
};

struct arrival {
    struct service_waiter waiter; /* first member */
    struct transfer_task transfer;
    struct task task;
    const struct arrival_kind *kind;
    struct engine *engine;
    struct arrival *next, *previous; /* the engine's list */
    int files[LIMIT_REQUEST_FILES];  /* owned; -1 */
    struct json *question;           /* owned; the job borrows from it */
    struct json *answer;             /* owned; take fills it */
    uid_t uid;
    bool is_admin;
    enum role role;
    bool more;
    bool has_arrived; /* no transfer is out */
    enum kiln_code rc;
    struct kiln_err err;
    void *state; /* take's own: where it stands */
};

/* Answers later.  |url| borrowed from |question|, which is taken over; NULL: the file that came
 * with the request. */
KILN_MUST_CHECK enum kiln_code arrival_begin(struct engine *e, struct caller *caller,
                                             const struct frame_header *header,
                                             const struct arrival_kind *kind, struct json *question,
                                             struct kiln_err *err);
/* Answers as a->rc and a->err say; |a| is not the caller's any more.  The file and |state| go on a
 * read lane. */
void arrival_end(struct arrival *a);
/* Fetches the |index|-th file that came with the request, called |name|; pass is called again. */
void arrival_next(struct arrival *a, unsigned index, const char *name);
/* The staged file was moved away. */
void arrival_taken(struct arrival *a);
/* Ends them all early. */
void arrivals_cancel(struct engine *e);
