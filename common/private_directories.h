/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The directories of a user's private kilnd.  libkiln, which starts it, and `kilnd --private` work
 * them out the same way.
 *
 * Role       cache: $XDG_CACHE_HOME/kiln/private, else ~/.cache/kiln/private; state likewise with
 *            XDG_STATE_HOME and ~/.local/state.  Where one cannot be used (no home, not writable,
 *            not this user's, a network filesystem, too long for a socket), it is below
 *            kiln-private-UID in $TMPDIR, else in /tmp
 * Threading  pure functions of the environment and the filesystem; may block
 */
#include "common/paths.h"

#include <sys/un.h>

struct private_directories {
    char cache[PATH_TEXT_MAX], state[PATH_TEXT_MAX];
    char socket[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* in |cache| */
    char why_temporary[sizeof(
        ((struct kiln_err *)0)->text)]; /* why one is below $TMPDIR or /tmp; "": none is */
};

/* Makes them, mode 0700.  A directory `embedded`, which earlier releases used in place of
 * `private`, is renamed. */
KILN_MUST_CHECK enum kiln_code private_directories_find(struct private_directories *ret_directories,
                                                        struct kiln_err *err);
