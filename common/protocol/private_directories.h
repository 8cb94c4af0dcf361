/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The directories of a user's private kilnd.  libkiln, which starts it, and `kilnd --private` use
 * this code to find the same ones.
 *
 * Role       The cache is $XDG_CACHE_HOME/kiln/private, else ~/.cache/kiln/private; the state
 *            likewise with XDG_STATE_HOME and ~/.local/state.  If such a
 *            directory cannot be used, it is below kiln-private-UID in $TMPDIR, else in /tmp.
 *            Reasons are: no home, not writable, another user's, on a network filesystem, or a path
 *            of the cache that is too long for a socket
 * Threading  pure functions of the environment and the filesystem; may block
 */
#include "common/base/paths.h"

#include <sys/un.h>

struct private_directories {
    char cache[PATH_TEXT_MAX], state[PATH_TEXT_MAX];
    char socket[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* in |cache| */
    char lock[PATH_TEXT_MAX + 16]; /* in |state|, so that it survives if the cache is deleted */
    char why_temporary[sizeof(((struct kiln_err *)0)->text)]; /* why a directory is below $TMPDIR or
                                                                 /tmp; "" if none is */
};

/* Creates both directories with mode 0700. */
KILN_MUST_CHECK enum kiln_code private_directories_find(struct private_directories *ret_directories,
                                                        struct kiln_err *err);
