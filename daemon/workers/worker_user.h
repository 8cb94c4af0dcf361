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
    const char *account; /* name of the account for these processes */
    /* A user number for hosts without that account; compilers and transfers have different ones. */
    const char *stand_in;
};
extern const struct worker_kind worker_compilers, worker_transfers;

struct worker_user {
    uid_t uid;
    gid_t gid;
    bool other; /* the user is not kilnd's own user, so a worker must change its user */
    char name[WORKER_USER_NAME_MAX];
};

/* Looks up |name|, an account or a user number; "" means kilnd's own user.  Only root may name
 * another user. */
KILN_MUST_CHECK enum kiln_code worker_user_find(const struct worker_kind *kind, const char *name,
                                                struct worker_user *ret_user, struct kiln_err *err);
/* Returns KILN_NOT_FOUND if the host does not have the account. */
KILN_MUST_CHECK enum kiln_code worker_user_of_service(const struct worker_kind *kind,
                                                      struct worker_user *ret_user,
                                                      struct kiln_err *err);
/* Chooses |account| if it exists, else |stand_in|. */
KILN_MUST_CHECK enum kiln_code worker_user_standard(const struct worker_kind *kind,
                                                    const char **ret_name, struct kiln_err *err);
/* Returns KILN_INVALID if both are the same user, unless that is kilnd's own.  A process may send
 * signals to other processes of its user, so a transfer that an attacker controls could disturb
 * compilers. */
KILN_MUST_CHECK enum kiln_code worker_users_differ(const struct worker_user *compilers,
                                                   const struct worker_user *transfers,
                                                   struct kiln_err *err);
/* Checks the modes of the directories on the path. */
bool worker_user_may_enter(const struct worker_user *user, const char *directory);
