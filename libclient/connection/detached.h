/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starting a program that is no child of this process.
 *
 * Role       the caller's wait() and SIGCHLD handler never hear of the program, whatever process
 *            this is (process 1 of a container too); its signal mask, handlers, descriptors and
 *            working directory stay as they are, and no handler of pthread_atfork runs
 * Threading  one thread at a time
 */
#include <stddef.h>

struct detached {
    const char *program;
    char *const *arguments, *const *environment;
    const int *files; /* the program's descriptors 1, 2, 3 ...; it has no others; 0 is /dev/null */
    size_t file_count;
};

/* In a session of its own, every signal at its default and unblocked.  0 or an errno. */
int detached_start(const struct detached *detached);
