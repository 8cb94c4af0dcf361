/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a new process begins with: a session and process group of its own; its standard input and
 * output are /dev/null, it has no descriptors but those named here, its signals are at their
 * defaults and none is blocked.
 *
 * Threading  any thread
 */
#include <spawn.h>
#include <sys/types.h>

struct loop_spawn {
    const char *program;
    const char *const *arguments; /* NULL-terminated, with the program's name first */
    int fd_2;                     /* borrowed: becomes its standard error; -1: /dev/null */
    int fd_3;                     /* borrowed: becomes the child's descriptor 3 */
};

/* posix_spawn, or what does as it does. */
typedef int spawner(pid_t *ret_pid, const char *program, const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes, char *const *arguments,
                    char *const *environment);

/* 0, or an errno. */
int spawn_process(const struct loop_spawn *spawn, spawner *run, pid_t *ret_pid);
