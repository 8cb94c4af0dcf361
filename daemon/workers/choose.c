/* SPDX-License-Identifier: MIT */
#include "daemon/workers/choose.h"

bool worker_is_idle(const struct worker *w) { return w->state == WORKER_IDLE && !w->hung_up; }

static int score_of(const struct worker *w, struct bytes toolchain)
{
    return bytes_equal_text(toolchain, w->toolchain) ? 2 : w->toolchain[0] == '\0';
}

struct worker *worker_choose(struct worker *workers, const struct compile_task *task)
{
    struct worker *best = NULL;
    int best_score = -1;
    for (struct worker *w = workers; w; w = w->next) {
        int score = worker_is_idle(w) ? score_of(w, task->job.toolchain) : -1;
        if (score > best_score) {
            best = w;
            best_score = score;
        }
    }
    return best;
}
