/* SPDX-License-Identifier: MIT */
#include "daemon/workers/choose.h"

static bool is_idle(const struct worker *w) { return w->state == WORKER_IDLE && !w->hung_up; }

bool worker_may_serve(const struct worker *w, const struct compile_asker *asker)
{
    if (!w->is_bound)
        return true;
    return w->bound_to.kind == ASKER_USER && asker->kind == ASKER_USER &&
           w->bound_to.uid == asker->uid;
}

/* Of two that are as good otherwise the asker's own: the other is free for anybody. */
static int score_of(const struct worker *w, struct bytes toolchain)
{
    int libraries = bytes_equal_text(toolchain, w->toolchain) ? 2 : w->toolchain[0] == '\0';
    return 2 * libraries + w->is_bound;
}

struct worker *worker_choose(struct worker *workers, const struct compile_task *task)
{
    struct worker *best = NULL;
    int best_score = -1;
    for (struct worker *w = workers; w; w = w->next) {
        if (!is_idle(w) || !worker_may_serve(w, &task->asker))
            continue;
        int score = score_of(w, task->job.toolchain);
        if (score > best_score) {
            best = w;
            best_score = score;
        }
    }
    return best;
}

struct worker *worker_idle_longest(struct worker *workers)
{
    struct worker *longest = NULL;
    for (struct worker *w = workers; w; w = w->next) {
        if (is_idle(w) && (!longest || w->idle_since_ns < longest->idle_since_ns))
            longest = w;
    }
    return longest;
}
