/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The directories of a user's private kilnd.  Both libkiln, which starts that kilnd, and `kilnd
 * --private` use this code, so that they find the same directories.
 *
 * Role       The cache is $XDG_CACHE_HOME/kiln/private, by default ~/.cache/kiln/private.  The
 *            state is $XDG_STATE_HOME/kiln/private, by default ~/.local/state/kiln/private.  A
 *            directory that cannot be used is replaced by one below kiln-private-UID in $TMPDIR, by
 *            default /tmp.  A directory cannot be used if the user has no home directory; if the
 *            directory is not writable, belongs to another user or is on a network filesystem; or
 *            if the cache's path is too long for a socket
 * Threading  pure functions of the environment and the filesystem; may block
 */
#include "common/base/paths.h"

#include <sys/un.h>

struct private_directories {
    char cache[PATH_TEXT_MAX], state[PATH_TEXT_MAX];
    char socket[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* a file in |cache| */
    /* A file in |state|, so that it still exists if the cache is deleted. */
    char lock[PATH_TEXT_MAX + 16];
    /* Why the cache or the state is below $TMPDIR or /tmp; "" if neither of them is. */
    char why_temporary[sizeof(((struct kiln_err *)0)->text)];
};

/* Creates both directories with mode 0700. */
KILN_MUST_CHECK enum kiln_code private_directories_find(struct private_directories *ret_directories,
                                                        struct kiln_err *err);
