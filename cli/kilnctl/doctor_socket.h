/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks whether the caller may reach kilnd's socket and whether a process listens there.
 *
 * Role       gathers facts from the system, then judges them; judging makes no system calls
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

#include <sys/stat.h>
#include <sys/types.h>

struct socket_facts {
    char path[256];
    bool is_system; /* the path belongs to the system's kilnd, not to a private one */
    bool has_unit;  /* the system kilnd's kilnd.socket is installed, and systemd runs */
    char elsewhere[256];
    char own[256];
    bool no_runtime; /* XDG_RUNTIME_DIR is not set, so |own| has no directory */
    int stat_errno;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    char owner[64], group[64];
    bool has_group; /* this host has the group that grants access */
    uid_t euid;
    char user[64];
    bool in_group;      /* the caller's process has the socket's group */
    bool in_group_file; /* the caller's account is in the group, maybe only from the next login */
    int connect_errno;
};

void socket_facts_gather(const char *path, struct socket_facts *ret_facts);
/* Adds one or two findings.  Returns whether kilnd can be queried. */
bool socket_judge(const struct socket_facts *facts, struct findings *findings);
