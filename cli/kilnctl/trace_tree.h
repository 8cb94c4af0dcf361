/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Traces of jobs in the fleet's tree (docs/formats/fleet.md#traces-of-jobs).
 *
 * Role       names the shard of a job, and checks the names and texts of traces. What comes from
 *            the tree is not trusted before this check
 * Ownership  texts are borrowed
 * Threading  main thread
 */
#include "common/base/trace_file.h"
#include "engine/fleet/fleet_series.h"

/* The target of traces: a key may sign them if it is trusted for this target. */
#define TRACE_TARGET "trace"
#define TRACE_FILE_NAME_MAX 200u

struct fleet_shard trace_shard(const char *job);
/* Returns whether |name| may be the name of a trace in a job's directory: ASCII letters, digits and
 * "._+=-" without a leading dot, and then TRACE_ENDING. */
bool trace_file_name_check(struct bytes name);
/* Returns whether |text| begins as a trace, and is not larger than one. */
bool trace_content_check(struct bytes text);
