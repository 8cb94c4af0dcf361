/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The directories of a user's private kilnd, for libkiln and for `kilnd --private`.
 *
 * Role       The cache is $XDG_CACHE_HOME/kiln/private, by default ~/.cache/kiln/private.  The
 *            state is $XDG_STATE_HOME/kiln/private, by default ~/.local/state/kiln/private.  A
 *            directory that cannot be used is replaced by one below kiln-private-UID in $TMPDIR, by
 *            default /tmp.  A directory can be used if this user owns it and may write to it, and
 *            if it is not on a network filesystem.  The cache's path must fit a socket
 * Threading  pure functions of the environment and the filesystem; may block
 */
#include "common/base/paths.h"

#include <sys/un.h>

struct private_directories {
    char cache[PATH_TEXT_MAX], state[PATH_TEXT_MAX];
    char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
    /* A file in |state|, so that it still exists if the cache is deleted. */
    char lock[PATH_TEXT_MAX + 16];
    /* Why the cache or the state is below $TMPDIR or /tmp; "" if neither of them is. */
    char why_temporary[sizeof(((struct kiln_err *)0)->text)];
};

KILN_MUST_CHECK enum kiln_code private_directories_find(struct private_directories *ret_directories,
                                                        struct kiln_err *err);
