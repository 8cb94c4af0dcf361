/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux Landlock: limits which files this process, and all processes that it starts, may open.  It
 * also limits to which network ports and abstract sockets they may connect, and to which processes
 * they may send signals.
 *
 * A ruleset names the rights that it handles, for example reading and writing files.  At first,
 * every handled right is forbidden.  A rule then allows some of these rights below one directory:
 *
 *     handled: read, write, execute   everything is forbidden
 *     rule:    /usr      read         only reading below /usr is allowed
 *     rule:    /tmp/job  read, write
 *
 * Landlock needs no privilege.  Its rules apply in addition to a file's permissions, and cannot be
 * undone (landlock(7)).  Each version of the kernel's interface knows more rights.
 *
 * Role       wraps the system calls.  engine/compile/confine.c and engine/transfer/confine.c
 *            decide which files a process may open
 *
 * Ownership  landlock_enforce and landlock_rules_done close the rules; an enforced ruleset is
 *            permanent
 *
 * Threading  call before any thread is started
 */
#include "common/base/err.h"

#include <linux/landlock.h>
#include <stdint.h>

/* Constants that older kernel headers lack */
#define LANDLOCK_TRUNCATE (1ull << 14)        /* since version 3; in |files| */
#define LANDLOCK_BIND_TCP (1ull << 0)         /* since version 4; in |network| */
#define LANDLOCK_CONNECT_TCP (1ull << 1)      /* since version 4; in |network| */
#define LANDLOCK_ABSTRACT_SOCKETS (1ull << 0) /* since version 6; in |scoped| */
#define LANDLOCK_SIGNALS (1ull << 1)          /* since version 6; in |scoped| */

struct landlock_rights { /* the rights that a ruleset handles */
    uint64_t files;      /* rights for files, which landlock_allow can allow */
    uint64_t network;    /* rights for the network, all of which kiln forbids */
    uint64_t scoped;     /* rights that are only allowed towards processes with the same ruleset */
};

struct landlock_rules {
    int fd;           /* owned; -1 if there is none */
    uint64_t handled; /* file rights that the ruleset handles */
};

/* Returns the kernel's Landlock version, from 1, or 0 if Landlock is missing or disabled. */
unsigned landlock_version(void);
/* Returns all rights that |version| knows. */
struct landlock_rights landlock_rights(unsigned version);
KILN_MUST_CHECK enum kiln_code landlock_begin(const struct landlock_rights *handled,
                                              struct landlock_rules *ret_rules,
                                              struct kiln_err *err);
/* Frees the rules.  Accepts rules that were enforced already. */
void landlock_rules_done(struct landlock_rules *rules);
/* Allows |access| to everything below the directory |path|, or to the file |path|.  Skips a path
 * that does not exist, or that this process cannot open. */
void landlock_allow(const struct landlock_rules *rules, const char *path, uint64_t access);
/* Enforces the rules for this process.  It must have set PR_SET_NO_NEW_PRIVS. */
KILN_MUST_CHECK enum kiln_code landlock_enforce(struct landlock_rules *rules, struct kiln_err *err);
