/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The way to a kiln-launch of our own, which starts the processes of workers where they are to be
 * nobody's children.
 *
 * Role       one for all: it is the only orphan, whom process 1 may be slow to reap, and it reaps
 *            the others.  It is started when it is first needed, and anew when it has ended; it
 *            ends with us, however we end
 * Threading  the loop's thread
 */
#include "common/err.h"

struct keeper {
    const char *program; /* borrowed: path of kiln-launch */
    int control;         /* owned; -1: it has not been started */
};

#define KEEPER_OF(path) ((struct keeper){ .program = (path), .control = -1 })

/* |connection|: what launch_request goes by; |fd_2|: the standard error of what it starts.  Both
 * stay the caller's. */
KILN_MUST_CHECK enum kiln_code keeper_pass(struct keeper *keeper, const char *program,
                                           int connection, int fd_2, struct kiln_err *err);
void keeper_close(struct keeper *keeper);
