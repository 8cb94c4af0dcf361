/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Linux Landlock: which files this process and all that it starts may open from now on.
 *
 * Role       the system calls; who may open what is said by engine/compile/confine.c and
 *            engine/transfer/confine.c
 * Ownership  rules are closed by landlock_enforce or landlock_rules_done; what is enforced holds
 *            for ever
 * Threading  before any thread is started
 */
#include "common/err.h"

#include <linux/landlock.h>
#include <stdint.h>

#define LANDLOCK_TRUNCATE (1ull << 14) /* since the third version; not in every header */

struct landlock_rules {
    int fd;           /* owned; -1 */
    uint64_t handled; /* forbidden unless allowed */
};

/* What this kernel has, up from 1; 0 when it has none, or it is switched off. */
unsigned landlock_version(void);
/* All rights that the kernel's |version| knows. */
uint64_t landlock_rights(unsigned version);
KILN_MUST_CHECK enum kiln_code landlock_begin(uint64_t handled, struct landlock_rules *ret_rules,
                                              struct kiln_err *err);
/* Accepts ones that are enforced. */
void landlock_rules_done(struct landlock_rules *rules);
/* |access| to what is there below the folder |path|, or to that file; what is not there, or not
 * ours to open, needs no permission. */
void landlock_allow(const struct landlock_rules *rules, const char *path, uint64_t access);
/* The process must have given up new privileges (PR_SET_NO_NEW_PRIVS). */
KILN_MUST_CHECK enum kiln_code landlock_enforce(struct landlock_rules *rules, struct kiln_err *err);
