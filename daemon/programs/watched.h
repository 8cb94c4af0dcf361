/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Detects the end of a process, whether it is a child or not.
 *
 * Role       uses a pidfd.  If there is none (old Linux, filter of a container, no free
 *            descriptor), the caller checks the process periodically
 * Ownership  watched_begin opens the pidfd, watched_end closes it
 * Threading  one thread
 */
#include <stdbool.h>
#include <sys/types.h>

struct watched {
    pid_t pid; /* 0 if only |fd| identifies the process */
    /* Owned pidfd; poll(2) reports POLLIN when the process has ended.  -1 if pidfd_open failed; the
     * user of this struct then checks |pid| periodically. */
    int fd;
    unsigned long long born; /* start time of the process, because pids are reused */
};

/* Returns false, with errno set, if there is no such process. */
bool watched_begin(struct watched *ret_watched, pid_t pid);
bool watched_begin_peer(struct watched *ret_watched, int socket);
int watched_pause_ms(const struct watched *watched);
/* |revents| is what poll(2) returned for |fd|.  Does not reap a child that has ended. */
bool watched_has_ended(const struct watched *watched, short revents);
void watched_end(struct watched *watched);
