/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starts a process in a clean state: a new session and process group, standard input and output on
 * /dev/null, only the descriptors named here, default signal handlers, no signal blocked.
 *
 * Threading  any thread but the loop's, because the call blocks until the process has executed its
 *            program.  On a busy host, this took up to 0.2 s.  The thread must not end before the
 *            process does.  Otherwise the system sends the process its parent-death signal
 *            (PR_SET_PDEATHSIG), although kilnd still runs
 */
#include <sys/types.h>

struct loop_spawn {
    const char *program;
    const char *const *arguments;
    int fd_2; /* borrowed; the child's standard error; -1: /dev/null */
    int fd_3; /* borrowed; the child's descriptor 3 */
};

/* Returns 0 or an errno. */
int spawn_process(const struct loop_spawn *spawn, pid_t *ret_pid);
