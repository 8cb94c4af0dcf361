/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * JSON requests that take a turn of the tuning queue.
 *
 * Role       reads and checks the question, waits for its turn, tells its progress, sends the
 *            answer
 * Ownership  an ask frees itself once it was answered, or its caller left before it began
 * Threading  |work| runs on the tuning lane, everything else on the engine's thread
 */
#include "engine/service/requests/admin.h"
#include "engine/service/tuning/tuning_news.h"
#include "engine/service/tuning/tuning_queue.h"
#include "engine/service/tuning/tuning_terms.h"

struct tuning_ask;

struct tuning_ask_kind {
    const struct admin_member *members;
    /* Before it waits: what is wrong with the question, or who may not ask it.  May be NULL. */
    enum kiln_code (*check)(struct tuning_ask *ask, struct kiln_err *err);
    /* When its turn has come: makes ask->turn.job.  May be NULL: there is only |work|. */
    enum kiln_code (*begin)(struct tuning_ask *ask, struct tuning *tuning, struct kiln_err *err);
    /* Sets ask->turn.more to be called again, if the caller is still there: a step each. */
    enum kiln_code (*work)(struct tuning_ask *ask, struct tuning *tuning, struct kiln_err *err);
    /* After it, where it ended well: fills the answer, or says in turn.rc and turn.err what was
     * wrong all the same.  May be NULL. */
    void (*finish)(struct tuning_ask *ask);
    void (*state_done)(void *state); /* what it owns; may be NULL */
    size_t state_size;               /* of ask->state, zeroed */
};

struct tuning_ask {
    struct service_waiter waiter; /* first member */
    struct tuning_turn turn;
    struct admin_place place;
    const struct tuning_ask_kind *kind;
    struct json *question;                  /* owned */
    struct json *answer;                    /* owned */
    struct tuning_news *news;               /* owned */
    struct object *files[ADMIN_FILES_MOST]; /* owned references: descriptors of the answer */
    size_t file_count;
    uid_t uid;
    enum role role;
    void *state; /* owned; of the kind */
};

KILN_MUST_CHECK enum kiln_code tuning_ask_run(struct engine *e, struct caller *caller,
                                              const struct frame_header *header, struct bytes body,
                                              const struct tuning_ask_kind *kind,
                                              struct kiln_err *err);
/* A path in the staging folder for a file of this request; none is there. */
void tuning_ask_path(const struct tuning_ask *ask, char *ret_path, size_t size);
/* On the lane, before a file of |bytes| goes out, or has them so far: KILN_BUSY or KILN_FULL where
 * there is no room for it, KILN_CANCELLED where nobody wants it any more. */
KILN_MUST_CHECK enum kiln_code tuning_ask_room(const struct tuning_ask *ask, uint64_t bytes,
                                               struct kiln_err *err);
/* The written file at |path| goes out with the answer; it is removed from the folder in any case.
 */
KILN_MUST_CHECK enum kiln_code tuning_ask_send_file(struct tuning_ask *ask, const char *path,
                                                    uint64_t *ret_bytes, struct kiln_err *err);
/* Sends a frame of |news| to the caller of |waiter|; false: there is none, or nobody to tell, who
 * is collected for no longer. */
bool tuning_tell(struct service_waiter *waiter, struct tuning_news *news);
/* Puts NAME into the answer where it is not 0. */
void tuning_set_count(struct json *answer, const char *name, uint64_t count);
