/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starts a program that is not a child of this process.
 *
 * Role       The caller's wait() and SIGCHLD handler do not see the program, even if the caller is
 *            process 1 of a container.  No handler of pthread_atfork runs
 * Threading  one thread at a time
 */
#include <spawn.h>
#include <stddef.h>

struct detached {
    const char *program;
    char *const *arguments, *const *environment;
    /* Descriptors that become the program's descriptors 1, 2, 3, ...; -1 stands for /dev/null.
     * Descriptor 0 is always /dev/null.  The program gets no other descriptors. */
    const int *files;
    size_t file_count;
};

/* Starts the program in a new session.  All signals have their default actions there, and no signal
 * is blocked.  Returns 0 or an errno. */
int detached_start(const struct detached *detached);

/* Sets in |attributes| what detached_start gives a program: a new session, default actions for all
 * signals, and no blocked signal.  Returns 0 or an errno. */
int detached_set_signals(posix_spawnattr_t *attributes);
