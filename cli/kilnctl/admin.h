/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Administration requests of kilnctl's commands: a tree out, a tree back.
 *
 * Ownership  the caller owns the tree that comes back, and the tree it sent
 */
#include "cli/kilnctl/command.h"

/* |request| with |arguments| (NULL: none).  A tree that is no object is KILN_E_CORRUPT. */
CLI_MUST_CHECK int admin_ask(const struct invocation *invocation, const char *request,
                             const struct json *arguments, struct json **ret_reply,
                             struct kiln_error *err);
