/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Switches to another user permanently.
 *
 * Role       If kilnd runs as root, the processes that it starts switch to a user without rights.
 *            They can then only open files that this user may open. For example, a kernel's source
 *            cannot include files that only root may read
 * Ownership  permanent for this process and all processes that it starts
 * Threading  call before any thread is started
 */
#include "common/base/err.h"

#include <sys/types.h>

/* If the process is root, it becomes |uid| and |gid|, without supplementary groups and
 * capabilities. Otherwise it must be that user already. In both cases the result is verified, and
 * other processes of that user are prevented from inspecting this one. |setting| is the name of the
 * setting that chooses the user, for messages. After a failure the process must exit, because it
 * may have switched only partly. */
KILN_MUST_CHECK enum kiln_code change_user(uid_t uid, gid_t gid, const char *setting,
                                           struct kiln_err *err);
