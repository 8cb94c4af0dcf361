/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Becomes another user for good.
 *
 * Role       a process of root's kilnd may open no more than its own user: what root alone may
 *            read cannot be quoted by a source that includes it, nor taken by who breaks a parser
 * Ownership  holds for this process and all that it starts, for ever
 * Threading  before any thread is started
 */
#include "common/err.h"

#include <sys/types.h>

/* Root becomes |uid| and |gid|, without further groups and capabilities; a process that is that
 * user already stays it.  Either way all of it is verified, and no other process of that user may
 * look into this one.  |setting| is who asks for it, for the sentence.  On failure the process must
 * end: it may be half of each. */
KILN_MUST_CHECK enum kiln_code change_user(uid_t uid, gid_t gid, const char *setting,
                                           struct kiln_err *err);
