/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux Landlock: limits which files this process, and all processes that it starts, may open.
 * Landlock also limits to which network ports and abstract sockets these processes may connect, and
 * to which processes they may send signals.
 *
 * A ruleset names the rights that it handles, for example reading and writing files.  At first,
 * every handled right is forbidden.  A rule then allows some of these rights below one directory:
 *
 *     handled: read, write, execute   everything is forbidden
 *     rule:    /usr      read         only reading below /usr is allowed
 *     rule:    /tmp/job  read, write
 *
 * Landlock needs no privilege.  Its rules apply in addition to a file's permissions, and cannot be
 * undone (landlock(7)).
 *
 * Role       wraps the system calls; confine.c of compilers and transfers decides about files
 * Ownership  landlock_enforce and landlock_rules_done close the rules
 * Threading  call before any thread is started
 */
#include "common/base/err.h"

#include <linux/landlock.h>
#include <stdint.h>

/* Older kernel headers do not define these. */
#define LANDLOCK_TRUNCATE (1ull << 14)        /* since version 3; in |files| */
#define LANDLOCK_BIND_TCP (1ull << 0)         /* since version 4; in |network| */
#define LANDLOCK_CONNECT_TCP (1ull << 1)      /* since version 4; in |network| */
#define LANDLOCK_ABSTRACT_SOCKETS (1ull << 0) /* since version 6; in |scoped| */
#define LANDLOCK_SIGNALS (1ull << 1)          /* since version 6; in |scoped| */

struct landlock_rights {
    uint64_t files; /* rights on files; forbidden unless landlock_allow allows them */
    uint64_t network;
    /* Kinds of access to other processes. If a kind is handled, this process has that access only
     * to processes under the same ruleset. */
    uint64_t scoped;
};

struct landlock_rules {
    int fd; /* owned; -1: none */
    uint64_t handled;
};

/* Returns 0 if Landlock is missing or disabled. */
unsigned landlock_version(void);
struct landlock_rights landlock_rights(unsigned version);
KILN_MUST_CHECK enum kiln_code landlock_begin(const struct landlock_rights *handled,
                                              struct landlock_rules *ret_rules,
                                              struct kiln_err *err);
void landlock_rules_done(struct landlock_rules *rules);
/* Allows |access| to everything below |path|.  Skips a path that does not exist, or that this
 * process cannot open. */
void landlock_allow(const struct landlock_rules *rules, const char *path, uint64_t access);
/* The process must have set PR_SET_NO_NEW_PRIVS. */
KILN_MUST_CHECK enum kiln_code landlock_enforce(struct landlock_rules *rules, struct kiln_err *err);
