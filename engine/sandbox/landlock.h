/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux Landlock: which files this process and all that it starts may open from now on, and whom it
 * may reach by network, abstract sockets and signals.
 *
 * Role       the system calls; who may open what is said by engine/compile/confine.c and
 *            engine/transfer/confine.c.  What the kernel's version does not know is left out
 * Ownership  rules are closed by landlock_enforce or landlock_rules_done; what is enforced holds
 *            for ever
 * Threading  before any thread is started
 */
#include "common/err.h"

#include <linux/landlock.h>
#include <stdint.h>

/* Not in every header: */
#define LANDLOCK_TRUNCATE (1ull << 14)        /* since the third version */
#define LANDLOCK_BIND_TCP (1ull << 0)         /* fourth; of |network| */
#define LANDLOCK_CONNECT_TCP (1ull << 1)      /* fourth */
#define LANDLOCK_ABSTRACT_SOCKETS (1ull << 0) /* sixth; of |scoped|: only those of its own kind */
#define LANDLOCK_SIGNALS (1ull << 1)          /* sixth: only to processes of its own kind */

struct landlock_rights { /* forbidden unless allowed; there are rules for files alone */
    uint64_t files;
    uint64_t network;
    uint64_t scoped;
};

struct landlock_rules {
    int fd;           /* owned; -1 */
    uint64_t handled; /* of files */
};

/* What this kernel has, up from 1; 0 when it has none, or it is switched off. */
unsigned landlock_version(void);
/* All rights that the kernel's |version| knows. */
struct landlock_rights landlock_rights(unsigned version);
KILN_MUST_CHECK enum kiln_code landlock_begin(const struct landlock_rights *handled,
                                              struct landlock_rules *ret_rules,
                                              struct kiln_err *err);
/* Accepts ones that are enforced. */
void landlock_rules_done(struct landlock_rules *rules);
/* |access| to what is there below the directory |path|, or to that file; what is not there, or not
 * ours to open, needs no permission. */
void landlock_allow(const struct landlock_rules *rules, const char *path, uint64_t access);
/* The process must have given up new privileges (PR_SET_NO_NEW_PRIVS). */
KILN_MUST_CHECK enum kiln_code landlock_enforce(struct landlock_rules *rules, struct kiln_err *err);
