/* SPDX-License-Identifier: MIT */
#pragma once

/* Checks whether the caller may connect to kilnd's socket, and whether a process listens there.
 *
 * Role       gathers facts from the system, then judges them; judging makes no system calls
 * Ownership  plain values
 * Threading  one thread */
#include "cli/kilnctl/doctor_findings.h"

#include <sys/stat.h>
#include <sys/types.h>

struct socket_facts {
    char path[256];
    bool is_system; /* the path is that of the system-wide kilnd, not of a private one */
    bool has_unit;  /* systemd runs, and kilnd.socket of the system-wide kilnd is installed */
    char elsewhere[256];
    char own[256];
    bool no_runtime; /* XDG_RUNTIME_DIR is not set, so a private kilnd has no path for its socket */
    int stat_errno;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    char owner[64], group[64];
    bool has_group; /* the host has the group whose members may use kilnd */
    uid_t euid;
    char user[64];
    bool in_group; /* the calling process is in the socket's group */
    /* The caller's account is in the group. If |in_group| is false, the membership takes effect at
     * the next login. */
    bool in_group_file;
    int connect_errno;
};

void socket_facts_gather(const char *path, struct socket_facts *ret_facts);
/* Adds one or two findings. Returns whether the caller can send requests to kilnd. */
bool socket_judge(const struct socket_facts *facts, struct findings *findings);
