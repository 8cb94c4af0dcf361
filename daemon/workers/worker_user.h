/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The users that compilers and transfers run as: kilnd's own, or less privileged ones if kilnd runs
 * as root.
 *
 * Ownership  a plain value
 * Threading  before the loop runs; may block (the user database)
 */
#include "common/base/err.h"

#include <sys/types.h>

#define WORKER_USER_NAME_MAX 64

struct worker_kind {
    const char *who, *setting;
    const char *account;  /* the account dedicated to them */
    const char *stand_in; /* a user number for hosts without that account; each kind has its own */
};
extern const struct worker_kind worker_compilers, worker_transfers;

struct worker_user {
    uid_t uid;
    gid_t gid;
    bool other; /* differs from kilnd's own user: a worker must switch to it */
    char name[WORKER_USER_NAME_MAX];
};

/* |name|: an account or a user number; "" means kilnd's own user.  Only root may name another
 * user. */
KILN_MUST_CHECK enum kiln_code worker_user_find(const struct worker_kind *kind, const char *name,
                                                struct worker_user *ret_user, struct kiln_err *err);
/* The account that the unit runs the processes as; KILN_NOT_FOUND if the host has none. */
KILN_MUST_CHECK enum kiln_code worker_user_of_service(const struct worker_kind *kind,
                                                      struct worker_user *ret_user,
                                                      struct kiln_err *err);
/* The default when kilnd runs as root: the dedicated account, else the stand-in. */
const char *worker_user_standard(const struct worker_kind *kind);
/* KILN_INVALID if both are the same user, unless it is kilnd's own.  A process may send signals to
 * others of its user, so a transfer that was taken over could disturb compilers. */
KILN_MUST_CHECK enum kiln_code worker_users_differ(const struct worker_user *compilers,
                                                   const struct worker_user *transfers,
                                                   struct kiln_err *err);
/* Whether |user| may enter |directory|, judged by the modes of the directories on the path. */
bool worker_user_may_enter(const struct worker_user *user, const char *directory);
