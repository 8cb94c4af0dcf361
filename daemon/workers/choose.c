/* SPDX-License-Identifier: MIT */
#include "daemon/workers/choose.h"

bool worker_is_idle(const struct worker *w) { return w->state == WORKER_IDLE && !w->hung_up; }

enum loaded worker_loaded(const struct worker *w, struct bytes toolchain, const struct digest *id)
{
    static const struct digest any;
    if (w->toolchain[0] == '\0')
        return LOADED_NOTHING;
    if (!bytes_equal_text(toolchain, w->toolchain))
        return LOADED_OTHER;
    if (digest_equal(id, &w->toolchain_id) || digest_equal(id, &any) ||
        digest_equal(&w->toolchain_id, &any))
        return LOADED_IT;
    return LOADED_STALE;
}

struct worker *worker_choose(const struct list *workers, const struct compile_task *task)
{
    struct worker *best = NULL;
    enum loaded best_has = LOADED_STALE;
    LIST_EACH (workers, struct worker, link, w) {
        enum loaded has = worker_loaded(w, task->job.toolchain, &task->job.toolchain_id);
        if (worker_is_idle(w) && (!best || has > best_has)) {
            best = w;
            best_has = has;
        }
    }
    return best;
}
