/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compares the newest run of a job with the prefetches before it.
 *
 * Role       implements `trace prefetch --report`
 * Ownership  borrows the invocation
 * Threading  main thread
 */
#include "cli/kilnctl/command.h"

CLI_MUST_CHECK int trace_used_report(const struct invocation *invocation, struct kiln_error *err);
