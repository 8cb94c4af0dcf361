/* SPDX-License-Identifier: MIT */
#pragma once

/* Sends requests about a single kernel, for which the user typed only the first digits of its key.
 *
 * Ownership  the caller owns the reply
 * Threading  one thread; blocks */
#include "cli/kilnctl/admin.h"

#define KEY_DIGITS 64

CLI_MUST_CHECK int key_prefix_check(const char *prefix, struct kiln_error *err);
CLI_MUST_CHECK int key_prefix_ask(const struct invocation *invocation, const char *request,
                                  const char *prefix, struct json **ret_reply,
                                  struct kiln_error *err);
CLI_MUST_CHECK int key_prefix_complete(const struct invocation *invocation, const char *prefix,
                                       char ret_key[KEY_DIGITS + 1], struct kiln_error *err);
