/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * May the caller reach kilnd's socket, and does something listen there?
 *
 * Role       facts are gathered from the system, then judged: the second part needs no system
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/kilnctl/doctor_findings.h"

#include <sys/stat.h>
#include <sys/types.h>

struct socket_facts {
    char path[256];
    bool is_system;      /* the system's kilnd listens there, not one of the caller's own */
    bool has_unit;       /* its kilnd.socket is installed, and systemd runs */
    char elsewhere[256]; /* another of the usual places where there is a socket; "": none */
    char own[256];       /* where one of the caller's own would be */
    bool no_runtime;     /* and there is no directory for it: XDG_RUNTIME_DIR is not set */
    int stat_errno;      /* 0: there is something */
    mode_t mode;
    uid_t uid; /* its owner's */
    gid_t gid;
    char owner[64], group[64];
    bool has_group; /* this host has the group that lets users in */
    uid_t euid;
    char user[64];      /* the caller's name */
    bool in_group;      /* the caller's process has the socket's group */
    bool in_group_file; /* the caller's account has it: it counts from the next login */
    int connect_errno;  /* of connect(2); 0: it worked */
};

void socket_facts_gather(const char *path, struct socket_facts *ret_facts);
/* Adds one finding or two; whether a kilnd can be asked. */
bool socket_judge(const struct socket_facts *facts, struct findings *findings);
