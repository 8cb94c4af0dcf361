/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starts a process in a clean state: a new session and process group, standard input and output on
 * /dev/null, only the descriptors named here, default signal handlers, no signal blocked.
 *
 * Threading  any thread
 */
#include <sys/types.h>

struct loop_spawn {
    const char *program;
    const char *const *arguments; /* NULL-terminated, with the program's name first */
    int fd_2;                     /* borrowed; becomes the child's standard error; -1: /dev/null */
    int fd_3;                     /* borrowed; becomes the child's descriptor 3 */
};

/* Starts the process.  Returns 0 or an errno. */
int spawn_process(const struct loop_spawn *spawn, pid_t *ret_pid);
