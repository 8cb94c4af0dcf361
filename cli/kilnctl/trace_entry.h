/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Plans and kernels of traces, as text for people and as JSON.
 *
 * Ownership  the caller owns returned JSON
 * Threading  pure functions
 */
#include "cli/kilnctl/trace_job.h"
#include "common/base/json.h"

/* Writes a text such as "conv -n 1 ... (solver Naive)", or a kernel's key.  Returns |text|. */
const char *trace_entry_text(const struct trace_line *line, char text[TRACE_LINE_MAX]);
struct json *trace_entry_json(const struct trace_entry *entry);
