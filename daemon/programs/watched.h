/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Detects the end of a process, whether it is a child or not.
 *
 * Role       uses a pidfd.  If there is none (old kernel, filter of a container, no free
 *            descriptor), the caller checks the process periodically
 * Ownership  watched_begin opens the pidfd, watched_end closes it
 * Threading  one thread
 */
#include <stdbool.h>
#include <sys/types.h>

struct watched {
    pid_t pid; /* 0 if only |fd| identifies the process */
    /* Owned: the pidfd to poll.  When the process has ended, poll reports POLLIN.  If there is no
     * pidfd, this is -1, and |pid| is checked periodically. */
    int fd;
    unsigned long long born; /* start time of the process, because pids are reused; 0 if unknown */
};

/* Begins to watch a process.  Returns false, with errno set, if there is no such process. */
bool watched_begin(struct watched *ret_watched, pid_t pid);
/* Begins to watch the peer of |socket|. */
bool watched_begin_peer(struct watched *ret_watched, int socket);
/* Returns the time-out for poll until the next check. */
int watched_pause_ms(const struct watched *watched);
/* Returns whether the process has ended.  |revents| is what poll returned for |fd|.  Does not reap
 * a child that has ended. */
bool watched_has_ended(const struct watched *watched, short revents);
void watched_end(struct watched *watched);
