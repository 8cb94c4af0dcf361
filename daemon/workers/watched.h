/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A process whose end is waited for, be it a child or not.
 *
 * Role       by a descriptor of it (pidfd_open); where that is not to be had (an old kernel, a
 *            container's filter, no descriptor left) it is looked at again and again
 * Ownership  watched_begin / watched_end
 * Threading  one thread
 */
#include <stdbool.h>
#include <sys/types.h>

struct watched {
    pid_t pid;               /* 0: by |fd| alone */
    int fd;                  /* owned, for poll: POLLIN when it has ended; -1: look at it */
    unsigned long long born; /* tells it from a later one of that number; 0: not known */
};

/* False, with errno set, where there is none. */
bool watched_begin(struct watched *ret_watched, pid_t pid);
/* The same for whoever is at the other end of |socket|. */
bool watched_begin_peer(struct watched *ret_watched, int socket);
/* How long poll may wait until the next look. */
int watched_pause_ms(const struct watched *watched);
/* |revents| of its descriptor.  A child that has ended is left to be reaped. */
bool watched_has_ended(const struct watched *watched, short revents);
void watched_end(struct watched *watched);
