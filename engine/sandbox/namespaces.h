/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux namespaces: what of the host this process and all that it starts can see.
 *
 * Role       which ones a process is in; private ones in their place
 * Ownership  what is left stays left
 * Threading  before any thread is started
 */
#include "common/err.h"

#include <stdint.h>

enum namespace_kind {
    NAMESPACE_USER,
    NAMESPACE_MOUNT,
    NAMESPACE_PID,
    NAMESPACE_NETWORK,
    NAMESPACE_IPC,
    NAMESPACES,
};

struct namespace_ids { /* inode numbers: two processes with the same share it; 0: not known */
    uint64_t of[NAMESPACES];
};

/* Room for the text of them all. */
#define NAMESPACE_TEXT_MAX 128

struct namespace_errors { /* errno; 0: it is private, now or before */
    int of[NAMESPACES];
};

/* This process's own. */
void namespaces_read(struct namespace_ids *ret_ids);
/* Those that the host began with: their numbers are fixed, on every Linux since 3.8 (networks and
 * mounts since 6.18). */
bool namespace_is_hosts(uint64_t id);
/* This process's network leads nowhere: nothing but the loopback has an address or a route. */
bool network_is_empty(void);
/* By files as /proc/self/net/route and if_inet6 are. */
bool network_is_empty_by(const char *routes, const char *addresses);
/* As words of a command line. */
void namespaces_to_text(const struct namespace_ids *ids, char text[NAMESPACE_TEXT_MAX]);
bool namespaces_from_text(const char *text, struct namespace_ids *ret_ids);

/* Of Linux, whose distributors do not carry back what namespaces do. */
bool kernel_since(unsigned major, unsigned minor);

/* Leaves those that are still |outside|'s or the host's.  Without CAP_SYS_ADMIN a user namespace
 * comes first, in which this user and its group alone exist; then the process has all capabilities
 * within.  The private process namespace is that of the children from now on. */
void namespaces_leave(const struct namespace_ids *outside, struct namespace_errors *ret_errors);
