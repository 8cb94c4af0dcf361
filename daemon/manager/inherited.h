/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors inherited from the service manager (sd_listen_fds(3)): sockets that it opened, and
 * descriptors that an earlier kilnd stored there.
 *
 * Ownership  owns those that no caller has taken (inherited_done closes them)
 * Threading  at start, before anything else opens a descriptor
 */
#include "common/base/err.h"

#include <stddef.h>

#define INHERITED_MAX 64
#define INHERITED_NAME_MAX 256

struct inherited_fd {
    int fd;                        /* owned; -1 once taken */
    char name[INHERITED_NAME_MAX]; /* by LISTEN_FDNAMES; "unknown" if that is not set */
};

struct inherited {
    size_t count;
    struct inherited_fd items[INHERITED_MAX];
};

/* Takes none if LISTEN_PID names another process.  Sets close-on-exec on all and unsets the
 * variables. */
KILN_MUST_CHECK enum kiln_code inherited_take(struct inherited *ret_inherited,
                                              struct kiln_err *err);
/* The first whose name begins with |prefix| from item |from| on; NULL when there is none. */
struct inherited_fd *inherited_find(struct inherited *inherited, const char *prefix, size_t from);
void inherited_done(struct inherited *inherited);
