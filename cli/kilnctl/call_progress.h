/* SPDX-License-Identifier: MIT */
#pragma once

/* Shows the progress of a long request.  kilnd reports it in messages of the form {"progress":
 * {"stage", "done", "total", "attempt", "note"}}.
 *
 * Ownership  a plain value; |what| is borrowed
 * Threading  any thread; |lock| protects |bar|, which a timer thread also updates */
#include "cli/progress.h"

struct call_progress {
    const char *what;
    uint64_t started_ns;
    pthread_mutex_t lock;
    struct progress bar;
    char label[128];
    char stage[32];
    uint64_t attempt;
};

void call_progress_init(struct call_progress *progress, const char *what);
/* A callback for kiln_admin_call.progress, which shows the progress message |json|. |context| is a
 * struct call_progress. Returns 0, so that the request continues. */
int call_progress_on(void *context, const char *json);
void call_progress_end(struct call_progress *progress);
void call_progress_finish(struct call_progress *progress);
