/* SPDX-License-Identifier: MIT */
#include "daemon/workers/warming.h"

#include "common/base/clock.h"
#include "daemon/workers/choose.h"

/* How long jobs wait for a warm-up.  Loading a compiler takes less than a second on an idle host,
 * so a warm-up that takes longer than GRACE_MS hangs, or the host is overloaded. */
#define GRACE_MS 2000
#define WINDOW_MS 600000
#define NS_PER_MS 1000000u

void warming_init(struct warming *warming, const struct list *workers,
                  const struct pool_options *options)
{
    *warming = (struct warming){
        .workers = workers,
        .need.window_ns = (options->window_ms ? options->window_ms : WINDOW_MS) * NS_PER_MS,
        .grace_ns = (options->grace_ms ? options->grace_ms : GRACE_MS) * NS_PER_MS,
        .jobs_max = options->limits.jobs,
    };
}

bool worker_is_warming_up(const struct worker *w) { return w->task == &w->warmup.task; }

static bool is_source(const struct compile_job *job)
{
    return job->kind == COMPILE_KERNEL && job->origin == COMPILE_OF_CLIENT;
}

static bool has_needed_toolchain(const struct warming *warming, const struct worker *w)
{
    const struct warmup_need *need = &warming->need;
    return worker_loaded(w, bytes_of_text(need->toolchain), &need->toolchain_id) == LOADED_IT;
}

/* Notes which compiler the source of |job| needs.  Ignores a target that the compiler is not known
 * to support, because each process that warms up for this target might crash. */
static bool note_need(struct warming *warming, const struct compile_job *job)
{
    unsigned under_way = 0;
    if (!is_source(job) || !job->target_works)
        return false;
    LIST_EACH (warming->workers, const struct worker, link, w)
        under_way += w->task && is_source(&w->task->job);
    warmup_note(&warming->need, job, under_way, clock_monotonic_ns());
    return true;
}

static void retire_stale(const struct warming *warming, const struct compile_job *job)
{
    LIST_EACH (warming->workers, struct worker, link, w) {
        if (worker_is_idle(w) &&
            worker_loaded(w, job->toolchain, &job->toolchain_id) == LOADED_STALE)
            worker_retire(w);
    }
}

bool warming_note(struct warming *warming, const struct compile_job *job)
{
    bool is_needed = note_need(warming, job);
    retire_stale(warming, job);
    return is_needed;
}

uint64_t warming_window_ms(const struct warming *warming)
{
    return warming->need.window_ns / NS_PER_MS;
}

static bool has_only_warmed_up(const struct worker *w)
{
    return worker_is_idle(w) && w->jobs == 1 && w->warmup.task.job.kind == COMPILE_PROBE;
}

/* Returns a warm worker to retire.  Prefers workers that have loaded another compiler than the
 * needed one.  Returns NULL if at most |wanted| workers are warm. */
static struct worker *next_to_retire(const struct warming *warming, unsigned wanted)
{
    unsigned prepared = 0;
    struct worker *found = NULL;
    LIST_EACH (warming->workers, struct worker, link, w) {
        if (!has_only_warmed_up(w))
            continue;
        prepared++;
        if (!found || !has_needed_toolchain(warming, w))
            found = w;
    }
    return prepared > wanted ? found : NULL;
}

bool warming_retire_surplus(struct warming *warming)
{
    unsigned wanted = warmup_wanted(&warming->need, clock_monotonic_ns());
    for (struct worker *w; (w = next_to_retire(warming, wanted));)
        worker_retire(w);
    return wanted > 1;
}

/* Returns an idle worker that has loaded nothing yet and may run another job after the warm-up.
 * Returns NULL if there is none, or if enough workers are warm.  Also returns NULL while the first
 * worker warms up: if the warm-up kills its process, it should kill only one. */
struct worker *warming_next(struct warming *warming)
{
    unsigned prepared = 0, preparing = 0;
    struct worker *found = NULL;
    if (!warming->need.toolchain[0])
        return NULL;
    LIST_EACH (warming->workers, struct worker, link, w) {
        bool counts = !w->is_spent && has_needed_toolchain(warming, w);
        prepared += counts;
        preparing += counts && worker_is_warming_up(w);
        if (worker_is_idle(w) && !w->toolchain[0] && w->jobs + 1 < warming->jobs_max)
            found = w;
    }
    if (preparing > 0 && preparing == prepared)
        return NULL;
    return prepared < warmup_wanted(&warming->need, clock_monotonic_ns()) ? found : NULL;
}

enum kiln_code warming_start(struct warming *warming, struct worker *w, struct kiln_err *err)
{
    warmup_make(&warming->need, &w->warmup);
    enum kiln_code rc = worker_run_job(w, &w->warmup.task, err);
    if (rc && rc != KILN_UNAVAILABLE)
        warmup_put_off(&warming->need);
    return rc;
}

/* Evaluates the result of a warm-up.  COMPILE_UNAVAILABLE does not count as a failure: a resource
 * was temporarily lacking, and loading the compiler was not the cause. */
void warming_ended(struct warming *warming, struct worker *w)
{
    struct compile_result *result = &w->warmup.task.result;
    if (result->end == COMPILE_UNAVAILABLE && has_needed_toolchain(warming, w))
        warmup_put_off(&warming->need);
    else if (result->end != COMPILE_DONE && result->end != COMPILE_UNAVAILABLE)
        warmup_failed(&warming->need, &w->warmup, clock_monotonic_ns());
    compile_result_done(result);
}

static uint64_t grace_left_ns(const struct warming *warming, const struct worker *w,
                              uint64_t now_ns)
{
    uint64_t age_ns = now_ns - w->started_ns;
    bool prepares = worker_is_warming_up(w) && w->state == WORKER_BUSY;
    return prepares && age_ns < warming->grace_ns ? warming->grace_ns - age_ns : 0;
}

bool warming_is_worth_waiting(const struct warming *warming, const struct compile_job *job,
                              unsigned claimed)
{
    unsigned preparing = 0;
    uint64_t now_ns = clock_monotonic_ns();
    LIST_EACH (warming->workers, const struct worker, link, w) {
        if (worker_loaded(w, job->toolchain, &job->toolchain_id) != LOADED_IT)
            continue;
        if (worker_is_idle(w))
            return false;
        preparing += grace_left_ns(warming, w, now_ns) > 0;
    }
    return claimed < preparing;
}

uint64_t warming_grace_ms(const struct warming *warming)
{
    uint64_t now_ns = clock_monotonic_ns(), least_ns = warming->grace_ns;
    LIST_EACH (warming->workers, const struct worker, link, w) {
        uint64_t left_ns = grace_left_ns(warming, w, now_ns);
        if (left_ns > 0 && left_ns < least_ns)
            least_ns = left_ns;
    }
    return least_ns / NS_PER_MS + 1;
}
