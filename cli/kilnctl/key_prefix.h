/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests about the one kernel whose key begins with what the user typed.
 */
#include "cli/kilnctl/admin.h"

/* Checks the prefix, asks, and names it in whatever goes wrong. */
CLI_MUST_CHECK int key_prefix_ask(const struct invocation *invocation, const char *request,
                                  const char *prefix, struct json **ret_reply,
                                  struct kiln_error *err);
