/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Private temporary directories for compilers: one for each daemon, and in it one for each worker.
 *
 * Role       The directories belong to kilnd's user alone.  If compilers run as another user, that
 *            user owns the worker's directory and may pass through the ones above it, but not list
 *            them.  Also removes the directories of killed daemons
 * Ownership  an open temp_root holds a lock on its directory.  The lock shows other daemons, in any
 *            process namespace, that the directory is in use
 * Threading  one thread for each temp_root
 */
#include "common/base/err.h"
#include "common/base/paths.h"
#include "daemon/workers/worker_user.h"

struct temp_root {
    char path[PATH_TEXT_MAX];
    int fd; /* owned; holds the lock; -1 when closed */
    unsigned made;
    struct worker_user user;
};

static inline mode_t temp_base_mode(const struct worker_user *user)
{
    return user->other ? 0711 : 0700;
}

/* Creates <base>/kilnd-temp-XXXXXX, and removes the directories of this user's dead daemons.
 * Returns KILN_DENIED if |user| may not enter the new directory, and KILN_FULL if the filesystem is
 * full. */
KILN_MUST_CHECK enum kiln_code temp_root_open(const char *base, const struct worker_user *user,
                                              struct temp_root *ret_root, struct kiln_err *err);
void temp_root_close(struct temp_root *root);
KILN_MUST_CHECK enum kiln_code temp_directory_make(struct temp_root *root, char path[PATH_TEXT_MAX],
                                                   struct kiln_err *err);
