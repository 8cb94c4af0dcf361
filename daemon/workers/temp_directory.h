/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Private temporary directories for compilers: one directory a daemon, below it one a worker.
 *
 * Role       makes them, removes them whatever they hold, and sweeps up after a daemon that was
 *            killed.  All are for kilnd's user alone; where compilers run as another, a worker's
 *            own is that user's and the ones above it can be passed through, not listed
 * Ownership  a root holds a lock on its directory while it is open, so that no other daemon takes
 * it for a leftover, in whatever process namespace that one runs Threading  a root on one thread
 */
#include "common/err.h"
#include "common/paths.h"
#include "daemon/workers/worker_user.h"

struct temp_root {
    char path[PATH_TEXT_MAX];
    int fd; /* owned, holds the lock; -1 when closed */
    unsigned made;
    struct worker_user user; /* owns the directories below it */
};

/* Of a directory made to hold temporary ones. */
static inline mode_t temp_base_mode(const struct worker_user *user)
{
    return user->other ? 0711 : 0700;
}

/* Makes <base>/kilnd-temp-XXXXXX after removing those of dead daemons of this user.  Says what to
 * do where |user| may not enter it (KILN_DENIED) and where its filesystem is full (KILN_FULL). */
KILN_MUST_CHECK enum kiln_code temp_root_open(const char *base, const struct worker_user *user,
                                              struct temp_root *ret_root, struct kiln_err *err);
/* Removes it with all that is in it. */
void temp_root_close(struct temp_root *root);
/* A new directory below it. */
KILN_MUST_CHECK enum kiln_code temp_directory_make(struct temp_root *root, char path[PATH_TEXT_MAX],
                                                   struct kiln_err *err);
