/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors inherited from the service manager (sd_listen_fds(3)): sockets that it opened, and
 * descriptors that an earlier kilnd stored in it.
 *
 * Ownership  owns the descriptors that no caller has taken; inherited_done closes them
 * Threading  called at start, before anything else opens a descriptor
 */
#include "common/base/err.h"

#include <stddef.h>

#define INHERITED_MAX 64
#define INHERITED_NAME_MAX 256

struct inherited_fd {
    int fd; /* owned; -1 after a caller has taken it */
    /* "unknown" if LISTEN_FDNAMES is not set */
    char name[INHERITED_NAME_MAX];
};

struct inherited {
    size_t count;
    struct inherited_fd items[INHERITED_MAX];
};

/* Takes the descriptors of LISTEN_FDS and sets close-on-exec on them.  Takes nothing if LISTEN_PID
 * names another process.  Unsets the LISTEN_ variables in any case. */
KILN_MUST_CHECK enum kiln_code inherited_take(struct inherited *ret_inherited,
                                              struct kiln_err *err);
/* Returns the first descriptor, from item |from| on, whose name begins with |prefix|.  Returns NULL
 * if there is none. */
struct inherited_fd *inherited_find(struct inherited *inherited, const char *prefix, size_t from);
void inherited_done(struct inherited *inherited);
