/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Detects the end of a process, whether it is a child or not.
 *
 * Role       uses a pidfd.  Without one (old kernel, container filter, no free descriptor) the
 *            caller polls the process
 * Ownership  watched_begin / watched_end
 * Threading  one thread
 */
#include <stdbool.h>
#include <sys/types.h>

struct watched {
    pid_t pid;               /* 0: by |fd| alone */
    int fd;                  /* owned, for poll: POLLIN when it has ended; -1: poll by pid */
    unsigned long long born; /* start time, as pids are reused; 0: unknown */
};

/* False, with errno set, if there is no such process. */
bool watched_begin(struct watched *ret_watched, pid_t pid);
/* The same for the peer of |socket|. */
bool watched_begin_peer(struct watched *ret_watched, int socket);
/* The time-out for poll until the next check. */
int watched_pause_ms(const struct watched *watched);
/* |revents|: what poll returned for |fd|.  Does not reap a child that has ended. */
bool watched_has_ended(const struct watched *watched, short revents);
void watched_end(struct watched *watched);
