/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tuning records of an installed package.
 *
 * Role       merges them into the host's records, as 'db merge --tier host' does
 * Ownership  everything is borrowed
 * Threading  main thread; blocks
 */
#include "cli/kilnctl/command.h"
#include "common/base/json.h"

/* Does nothing if the package has no records.  Prints what was merged or, with --json, adds it to
 * |reply| as "records". */
CLI_MUST_CHECK int pkg_records_merge(const struct invocation *invocation, const char *package,
                                     struct json *reply, struct kiln_error *err);
