/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shows the progress of a long request, from the messages that kilnd sends meanwhile:
 * {"progress": {"stage", "done", "total", "attempt", "note"}}.
 *
 * Ownership  a plain value; |what| is borrowed
 * Threading  any thread; |lock| protects the bar, which a ticker updates from another thread
 */
#include "cli/progress.h"

struct call_progress {
    const char *what; /* borrowed; what is in progress, such as "gfx90a68.kdb" */
    uint64_t started_ns;
    pthread_mutex_t lock;
    struct progress bar;
    char label[128]; /* label of the bar, such as "gfx90a68.kdb: fetching" */
    char stage[32];  /* current stage; "" before the first message */
    uint64_t attempt;
};

/* Prepares |progress|.  The displayed time starts at this call. */
void call_progress_init(struct call_progress *progress, const char *what);
/* Callback for kiln_admin_call.progress; the context is a struct call_progress.  Returns 0. */
int call_progress_on(void *context, const char *json);
/* Erases the bar. */
void call_progress_end(struct call_progress *progress);
/* Like call_progress_end, after a request that succeeded: first marks the last stage as done. */
void call_progress_finish(struct call_progress *progress);
