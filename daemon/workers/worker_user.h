/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The users that compilers and transfers run as: kilnd's own, but for root's kilnd ones that may do
 * less.
 *
 * Ownership  a plain value
 * Threading  before the loop runs; may block (the user database)
 */
#include "common/err.h"

#include <sys/types.h>

#define WORKER_USER_NAME_MAX 64

struct worker_kind {
    const char *who, *setting;
    const char *account; /* made for them */
};
extern const struct worker_kind worker_compilers, worker_transfers;

struct worker_user {
    uid_t uid;
    gid_t gid;
    bool other; /* than kilnd's own: a worker has to become it */
    char name[WORKER_USER_NAME_MAX];
};

/* |name| of an account, or a user's number; "" is kilnd's own.  Only root may name another than its
 * own. */
KILN_MUST_CHECK enum kiln_code worker_user_find(const struct worker_kind *kind, const char *name,
                                                struct worker_user *ret_user, struct kiln_err *err);
/* The account that the unit of a service runs them as; KILN_NOT_FOUND where there is none. */
KILN_MUST_CHECK enum kiln_code worker_user_of_service(const struct worker_kind *kind,
                                                      struct worker_user *ret_user,
                                                      struct kiln_err *err);
/* For root's kilnd: an account made for this, else the one that owns nothing. */
const char *worker_user_standard(const struct worker_kind *kind);
/* By the modes of the directories on the way. */
bool worker_user_may_enter(const struct worker_user *user, const char *directory);
