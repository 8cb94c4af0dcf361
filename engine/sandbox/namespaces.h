/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux namespaces: which parts of the host this process, and all processes that it starts, can
 * see.
 *
 * A private namespace hides the host's mounts, processes, network or IPC objects from the process
 * (namespaces(7)).  Creating a namespace needs CAP_SYS_ADMIN. Without that capability, a process
 * first creates a user namespace, in which it has all capabilities (user_namespaces(7)):
 *
 *     host                     kilnd
 *       +- user namespace      only without CAP_SYS_ADMIN; maps only this user and group
 *            +- mount, process, network and IPC namespaces   the compiler
 *
 * Role       determines which namespaces a process is in, and replaces them by private ones
 * Ownership  leaving a namespace is permanent
 * Threading  call before any thread is started
 */
#include "common/base/err.h"

#include <stdint.h>

enum namespace_kind {
    NAMESPACE_USER,
    NAMESPACE_MOUNT,
    NAMESPACE_PID,
    NAMESPACE_NETWORK,
    NAMESPACE_IPC,
    NAMESPACES,
};

/* Inode numbers; 0 means unknown. */
struct namespace_ids {
    uint64_t of[NAMESPACES];
};

#define NAMESPACE_TEXT_MAX 128

struct namespace_errors { /* 0, or the errno of the failure to make the namespace private */
    int of[NAMESPACES];
};

void namespaces_read(struct namespace_ids *ret_ids);
/* Returns whether |id| is an initial namespace of the host.  The numbers of these namespaces are
 * fixed on every Linux since 3.8 (for networks and mounts since 6.18). */
bool namespace_is_hosts(uint64_t id);
/* Returns whether only the loopback device has an address or a route. */
bool network_is_empty(void);
/* Like network_is_empty, for two files in the format of /proc/self/net/route and if_inet6. */
bool network_is_empty_by(const char *routes, const char *addresses);
void namespaces_to_text(const struct namespace_ids *ids, char text[NAMESPACE_TEXT_MAX]);
bool namespaces_from_text(const char *text, struct namespace_ids *ret_ids);

/* Returns whether Linux has at least this version. Use it only for features that distributors do
 * not backport. */
bool kernel_since(unsigned major, unsigned minor);

/* Leaves every namespace that this process still shares with |outside| or with the host. Without
 * CAP_SYS_ADMIN, first creates a user namespace that has only this user and group. The new process
 * namespace applies to children, not to this process itself. */
void namespaces_leave(const struct namespace_ids *outside, struct namespace_errors *ret_errors);
