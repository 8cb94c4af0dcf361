/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests about the one kernel whose key begins with what the user typed.
 */
#include "cli/kilnctl/admin.h"

#define KEY_DIGITS 64

/* KILN_E_INVALID for what no key begins with. */
CLI_MUST_CHECK int key_prefix_check(const char *prefix, struct kiln_error *err);
/* Checks the prefix, asks, and names it in whatever goes wrong. */
CLI_MUST_CHECK int key_prefix_ask(const struct invocation *invocation, const char *request,
                                  const char *prefix, struct json **ret_reply,
                                  struct kiln_error *err);
/* The whole key; asks only where digits are missing. */
CLI_MUST_CHECK int key_prefix_complete(const struct invocation *invocation, const char *prefix,
                                       char ret_key[KEY_DIGITS + 1], struct kiln_error *err);
