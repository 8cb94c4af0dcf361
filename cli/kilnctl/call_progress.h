/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How far kilnd is with a long request, from what it says meanwhile:
 * {"progress": {"stage", "done", "total", "attempt", "note"}}.
 *
 * Ownership  a plain value; the name of what is at work is borrowed
 * Threading  one thread
 */
#include "cli/progress.h"

struct call_progress {
    const char *what; /* borrowed: "gfx90a68.kdb" */
    uint64_t started_ns;
    struct progress bar;
    char label[128]; /* "gfx90a68.kdb: fetching" */
    char stage[32];  /* "" before the first word of it */
    uint64_t attempt;
};

/* The time that is shown begins here. */
void call_progress_init(struct call_progress *progress, const char *what);
/* For kiln_admin_call.progress, with a struct call_progress as its context.  Returns 0. */
int call_progress_on(void *context, const char *json);
/* Takes the bar away. */
void call_progress_end(struct call_progress *progress);
/* The same when the request was done, and with it its last stage. */
void call_progress_finish(struct call_progress *progress);
