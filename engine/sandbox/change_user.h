/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Switches to another user permanently.
 *
 * Role       a process that root's kilnd starts may open only what its own user may.  So a source
 *            cannot include and quote files that only root may read, and a compromised parser
 *            cannot read them either
 *
 * Ownership  holds permanently for this process and all that it starts
 * Threading  call before any thread is started
 */
#include "common/base/err.h"

#include <sys/types.h>

/* Root becomes |uid| and |gid|, without supplementary groups and capabilities.  A process that is
 * not root must be that user already.  Either way the result is verified, and other processes of
 * that user may not inspect this one.  |setting| is the name of the responsible setting, for
 * messages. After a failure the process must exit, because it may have switched only partly. */
KILN_MUST_CHECK enum kiln_code change_user(uid_t uid, gid_t gid, const char *setting,
                                           struct kiln_err *err);
