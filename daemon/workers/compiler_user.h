/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The user that compilers run as: kilnd's own, but for root's kilnd one that may do less.
 *
 * Ownership  a plain value
 * Threading  before the loop runs; may block (the user database)
 */
#include "common/err.h"

#include <sys/types.h>

#define COMPILER_USER_NAME_MOST 64

struct compiler_user {
    uid_t uid;
    gid_t gid;
    bool other; /* than kilnd's own: a worker has to become it */
    char name[COMPILER_USER_NAME_MOST];
};

/* |name| of an account, or a user's number; "" is kilnd's own.  Only root may name another than its
 * own. */
KILN_MUST_CHECK enum kiln_code compiler_user_find(const char *name, struct compiler_user *ret_user,
                                                  struct kiln_err *err);
/* For root's kilnd: an account made for this, else the one that owns nothing. */
const char *compiler_user_standard(void);
/* By the modes of the folders on the way. */
bool compiler_user_may_enter(const struct compiler_user *user, const char *folder);
