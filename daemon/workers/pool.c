/* SPDX-License-Identifier: MIT */
#include "daemon/workers/pool.h"

#include "common/log/log.h"
#include "common/protocol/limits.h"
#include "daemon/workers/choose.h"
#include "daemon/workers/sandbox_reports.h"
#include "daemon/workers/warming.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_TIMEOUT_MS 30000
#define PAUSE_FIRST_MS 100
#define PAUSE_MAX_MS 30000
/* Number of failed starts in a row after which waiting jobs fail if no worker is left. */
#define FAILURES_REPORTED 3

struct pool {
    char *program, *service; /* owned */
    struct temp_root temp;
    struct worker_options options;
    unsigned wanted;
    unsigned starting_max;
    struct list workers;
    unsigned living;
    unsigned leaving; /* exited but not freed yet */
    unsigned failures;
    struct kiln_err failure;
    /* Compiles that wait for a worker.  The engine's number of compile slots limits them. */
    struct list waiting;
    struct list ending;
    struct warming warming;
    unsigned out;
    struct pool_counts counts;
    struct loop_owner owner;
    struct loop_timer restart;
    struct loop_timer settle;
    struct loop_timer grace;
    struct loop_timer review;
    char outside[NAMESPACE_TEXT_MAX];
    struct sandbox_reports sandbox;
    bool stopping;
    bool closing;
    void (*closed)(void *context);
    void *context;
};

/* Returns true if the pool is stopping, or if too many starts have failed in a row and no worker
 * can take a job now or after its current job.  Ignores workers that are starting, because they may
 * hang. */
static bool is_broken(const struct pool *p)
{
    bool may_start = p->failures < FAILURES_REPORTED, one_works = false;
    LIST_EACH (&p->workers, const struct worker, link, w)
        one_works |= worker_is_idle(w) || (w->state == WORKER_BUSY && !w->is_spent);
    return p->stopping || (!may_start && !one_works);
}

static void keep_up(struct pool *p);

static void log_not_given(enum kiln_code rc, struct kiln_err *err)
{
    kiln_while(err, "sending a job to a compiler process");
    if (rc == KILN_UNAVAILABLE)
        log_event(LOG_EVENT_compiler_died, NULL, "%s", err->text);
    else
        log_event(LOG_EVENT_job_not_given, NULL, "%s", err->text);
}

static void note_started(struct pool *p, const struct compile_job *job)
{
    if (warming_note(&p->warming, job) && !loop_timer_is_running(&p->review))
        loop_timer_start(&p->review, warming_window_ms(&p->warming), 0);
}

/* Retires warm workers that are no longer needed, because they hold memory.  How many are needed
 * depends on how many sources were recently compiled at the same time. */
static void on_review(struct loop_timer *timer)
{
    struct pool *p = LOOP_OWNER_OF(struct pool, review, timer);
    if (warming_retire_surplus(&p->warming) && !p->stopping)
        loop_timer_start(&p->review, warming_window_ms(&p->warming), 0);
    keep_up(p);
}

static struct worker *next_to_warm_up(struct pool *p)
{
    return p->stopping ? NULL : warming_next(&p->warming);
}

static void warm_up_soon(struct pool *p)
{
    if (next_to_warm_up(p))
        loop_timer_start(&p->settle, 0, 0);
}

static void start_warmups(struct pool *p)
{
    for (struct worker *w; (w = next_to_warm_up(p));) {
        struct kiln_err err = KILN_ERR_INIT;
        enum kiln_code rc = warming_start(&p->warming, w, &err);
        if (rc)
            log_not_given(rc, &err);
    }
}

static void end_soon(struct pool *p, struct compile_task *task, const struct kiln_err *err)
{
    task->result = COMPILE_RESULT_INIT;
    task->result.end = COMPILE_UNAVAILABLE;
    task->result.err = *err;
    list_append(&p->ending, &task->link);
    loop_timer_start(&p->settle, 0, 0);
}

/* If the chosen worker's process is gone, tries the next best worker.  Returns false if no worker
 * took the job, which then stays in the queue. */
static bool give_job(struct pool *p, struct compile_task *task)
{
    for (struct worker *w; (w = worker_choose(&p->workers, task));) {
        struct kiln_err err = KILN_ERR_INIT;
        enum kiln_code rc = worker_run_job(w, task, &err);
        if (rc)
            log_not_given(rc, &err);
        if (rc == KILN_UNAVAILABLE)
            continue;
        list_remove(&task->link);
        if (rc) {
            end_soon(p, task, &err);
            return true;
        }
        note_started(p, &task->job);
        return true;
    }
    return false;
}

static void give_jobs(struct pool *p)
{
    unsigned claimed = 0;
    LIST_EACH (&p->waiting, struct compile_task, link, task) {
        bool waits = p->stopping || warming_is_worth_waiting(&p->warming, &task->job, claimed);
        claimed += waits;
        if (!waits)
            give_job(p, task);
    }
    if (claimed)
        loop_timer_start(&p->grace, warming_grace_ms(&p->warming), 0);
    warm_up_soon(p);
    keep_up(p);
}

static void on_grace_over(struct loop_timer *timer)
{
    give_jobs(LOOP_OWNER_OF(struct pool, grace, timer));
}

static void end_task(struct pool *p, struct compile_task *task)
{
    p->out--;
    task->done(task);
}

static void report_ending(struct pool *p)
{
    for (struct compile_task *task; (task = LIST_POP(&p->ending, struct compile_task, link));)
        end_task(p, task);
}

static void refuse_waiting(struct pool *p)
{
    while (!list_is_empty(&p->waiting) && is_broken(p)) {
        struct compile_task *task = LIST_POP(&p->waiting, struct compile_task, link);
        task->result = COMPILE_RESULT_INIT;
        task->result.end = COMPILE_UNAVAILABLE;
        if (p->stopping)
            kiln_fail(&task->result.err, KILN_UNAVAILABLE, "kilnd is shutting down");
        else
            kiln_fail(&task->result.err, KILN_UNAVAILABLE, "no compiler process can be started: %s",
                      p->failure.text);
        end_task(p, task);
    }
}

static void close_when_empty(struct pool *p)
{
    if (!p->closing || p->living || p->leaving || p->out)
        return;
    loop_timer_close(&p->restart);
    loop_timer_close(&p->settle);
    loop_timer_close(&p->grace);
    loop_timer_close(&p->review);
}

static void on_settle(struct loop_timer *timer)
{
    struct pool *p = LOOP_OWNER_OF(struct pool, settle, timer);
    give_jobs(p);
    start_warmups(p);
    report_ending(p);
    refuse_waiting(p);
    close_when_empty(p);
}

static void log_probe_end(const struct compile_task *task)
{
    char target[LIMIT_TARGET_TEXT];
    snprintf(target, sizeof(target), "%.*s", (int)task->job.target.size,
             (const char *)task->job.target.data);
    const struct log_fields fields = { .target = target[0] ? target : NULL,
                                       .duration_us = task->result.wall_ns / 1000 };
    const struct bytes name = task->job.toolchain;
    /* a failed probe has a separate event, because many compilers abort for an unknown target */
    if (task->job.kind == COMPILE_PROBE)
        log_event(LOG_EVENT_probe_failed, &fields,
                  "'%.*s' failed the one-line test compile for %s: %s", (int)name.size,
                  (const char *)name.data, target, task->result.err.text);
    else
        log_event(LOG_EVENT_compile_ended_badly, &fields, "%s", task->result.err.text);
}

static void count_end(struct pool *p, const struct worker *w, const struct compile_task *task)
{
    enum compile_end end = task->result.end;
    bool died = w->state == WORKER_GONE && end != COMPILE_UNAVAILABLE;
    if (!died && end != COMPILE_CRASHED && end != COMPILE_TIMED_OUT)
        return;
    if (task->job.kind != COMPILE_KERNEL)
        log_probe_end(task); /* the engine logs the end of all other jobs, with their users */
    if (task->job.kind != COMPILE_KERNEL)
        p->counts.probe_crashes += task != &w->warmup.task;
    else if (end == COMPILE_TIMED_OUT)
        p->counts.worker_timeouts++;
    else
        p->counts.worker_crashes++;
}

static void on_finished(struct worker *w, struct compile_task *task)
{
    struct pool *p = w->context;
    bool was_warmup = task == &w->warmup.task;
    count_end(p, w, task);
    if (was_warmup)
        warming_ended(&p->warming, w);
    give_jobs(p);
    if (!was_warmup)
        end_task(p, task);
}

static uint64_t pause_ms(const struct pool *p)
{
    if (p->failures == 0)
        return 0;
    unsigned doublings = p->failures - 1 < 16 ? p->failures - 1 : 16;
    uint64_t pause = (uint64_t)PAUSE_FIRST_MS << doublings;
    return pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS;
}

/* Returns how many workers may start at the same time: one for each processor, because more workers
 * would delay each other and kilnd's first answers.  At least two, so that one worker that hangs
 * does not delay all others. */
static unsigned count_starting_max(void)
{
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
    return count > 2 ? (unsigned)count : 2;
}

/* Starts workers until |wanted| run.  Retired workers do not count, because they are about to end.
 * But at most |wanted| retired workers are left out of the count, in case they do not end. */
static void keep_up(struct pool *p)
{
    unsigned retired = 0, starting = 0;
    LIST_EACH (&p->workers, const struct worker, link, w) {
        retired += w->blame == BLAME_RETIRED && retired < p->wanted;
        starting += w->state == WORKER_STARTING;
    }
    if (!p->stopping && p->living - retired < p->wanted && starting < p->starting_max &&
        !loop_timer_is_running(&p->restart))
        loop_timer_start(&p->restart, pause_ms(p), 0);
}

static void on_start_failed(struct pool *p, const struct kiln_err *err)
{
    p->failures++;
    p->failure = *err;
    log_event(LOG_EVENT_compiler_start_failed, NULL, "%s; trying again in %.1f s", err->text,
              (double)pause_ms(p) / 1e3);
    loop_timer_start(&p->settle, 0, 0);
}

/* Starts one worker in each loop iteration, so that kilnd serves requests meanwhile. */
static void on_restart(struct loop_timer *timer)
{
    struct pool *p = LOOP_OWNER_OF(struct pool, restart, timer);
    struct worker *w;
    struct kiln_err err = KILN_ERR_INIT;
    if (worker_start(&p->options, p, &w, &err) == KILN_OK) {
        p->counts.worker_starts++;
        list_prepend(&p->workers, &w->link);
        p->living++;
    } else {
        on_start_failed(p, &err);
    }
    keep_up(p);
}

static void on_ready(struct worker *w, const struct sandbox_report *sandbox)
{
    struct pool *p = w->context;
    p->failures = 0;
    sandbox_reports_add(&p->sandbox, sandbox);
    give_jobs(p);
}

static void on_exited(struct worker *w, const struct kiln_err *err)
{
    struct pool *p = w->context;
    list_remove(&w->link);
    p->living--;
    p->leaving++;
    if (w->blame == BLAME_UNCONFINED)
        sandbox_reports_refuse(&p->sandbox, &w->sandbox);
    if (p->stopping)
        return;
    if (w->jobs == 0)
        on_start_failed(p, err);
    else if (!w->task && w->blame != BLAME_LINGERED && w->blame != BLAME_RETIRED &&
             w->jobs < p->options.limits.jobs)
        log_event(LOG_EVENT_compiler_died, NULL, "%s while it was idle", err->text);
    keep_up(p);
}

static void on_gone(struct worker *w)
{
    struct pool *p = w->context;
    p->leaving--;
    close_when_empty(p);
}

static void free_pool(struct pool *p)
{
    temp_root_close(&p->temp);
    free(p->program);
    free(p->service);
    free(p);
}

static void on_closed(struct loop_owner *owner)
{
    struct pool *p = LOOP_OWNER_OF(struct pool, owner, owner);
    void (*closed)(void *) = p->closed;
    void *context = p->context;
    free_pool(p);
    closed(context);
}

static void fill_options(struct pool *p, const struct pool_options *options)
{
    p->options = (struct worker_options){
        .loop = options->loop,
        .work_queues = options->work_queues,
        .temp = &p->temp,
        .program = p->program,
        .service = p->service,
        .outside = p->outside,
        .require_sandbox = options->require_sandbox,
        .limits = options->limits,
        .timeout_ms = options->timeout_ms,
        .start_timeout_ms =
            options->start_timeout_ms ? options->start_timeout_ms : START_TIMEOUT_MS,
        .events = { .ready = on_ready,
                    .finished = on_finished,
                    .exited = on_exited,
                    .gone = on_gone },
    };
}

enum kiln_code pool_create(const struct pool_options *options, struct pool **ret_pool,
                           struct kiln_err *err)
{
    struct pool *p = calloc(1, sizeof(*p));
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the pool of compiler processes");
    p->temp.fd = -1;
    list_init(&p->workers);
    list_init(&p->waiting);
    list_init(&p->ending);
    p->wanted = options->workers;
    p->starting_max = count_starting_max();
    p->owner.gone = on_closed;
    p->program = strdup(options->program);
    p->service = strdup(options->service ? options->service : "");
    p->temp.user = options->user;
    warming_init(&p->warming, &p->workers, options);
    enum kiln_code rc = KILN_OK;
    if (!p->program || !p->service)
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot make the pool of compiler processes");
    if (!rc && !*p->service)
        rc = temp_root_open(options->temp_base, &options->user, &p->temp, err);
    if (rc) {
        free_pool(p);
        return rc;
    }
    struct namespace_ids own;
    namespaces_read(&own);
    namespaces_to_text(&own, p->outside);
    fill_options(p, options);
    loop_timer_init(options->loop, &p->restart, &p->owner, on_restart);
    loop_timer_init(options->loop, &p->settle, &p->owner, on_settle);
    loop_timer_init(options->loop, &p->grace, &p->owner, on_grace_over);
    loop_timer_init(options->loop, &p->review, &p->owner, on_review);
    keep_up(p);
    *ret_pool = p;
    return KILN_OK;
}

void pool_compile(struct pool *p, struct compile_task *task)
{
    list_append(&p->waiting, &task->link);
    p->out++;
    give_jobs(p);
    if (is_broken(p))
        loop_timer_start(&p->settle, 0, 0);
}

static bool is_waiting(const struct pool *p, const struct compile_task *task)
{
    LIST_EACH (&p->waiting, const struct compile_task, link, other)
        if (other == task)
            return true;
    return false;
}

void pool_stop_compile(struct pool *p, struct compile_task *task)
{
    LIST_EACH (&p->workers, struct worker, link, w)
        if (w->task == task)
            worker_yield(w);
    if (!is_waiting(p, task))
        return;
    struct kiln_err err = KILN_ERR_INIT;
    kiln_fail(&err, KILN_UNAVAILABLE, "the compile was stopped before a compiler was ready");
    list_remove(&task->link);
    end_soon(p, task, &err);
}

void pool_set_timeout(struct pool *p, uint64_t timeout_ms) { p->options.timeout_ms = timeout_ms; }

struct pool_counts pool_counts(const struct pool *p)
{
    struct pool_counts counts = p->counts;
    counts.total = p->wanted;
    LIST_EACH (&p->workers, const struct worker, link, w) {
        counts.busy += w->state == WORKER_BUSY && !worker_is_warming_up(w);
        counts.starting += w->state == WORKER_STARTING || worker_is_warming_up(w);
        counts.idle += w->state == WORKER_IDLE;
    }
    return counts;
}

static struct worker_user user_of(const struct pool *p)
{
    struct worker_user user = p->temp.user;
    LIST_EACH (&p->workers, const struct worker, link, w) {
        if (!w->process.launched || w->process.uid == (uid_t)-1 || w->process.uid == user.uid)
            continue;
        user.uid = w->process.uid;
        snprintf(user.name, sizeof(user.name), "%u", (unsigned)user.uid);
    }
    return user;
}

struct pool_confinement pool_confinement(const struct pool *p)
{
    return (struct pool_confinement){ .user = user_of(p),
                                      .known = p->sandbox.is_known,
                                      .required = p->options.require_sandbox,
                                      .sandbox = sandbox_reports_worst(&p->sandbox, &p->workers) };
}

unsigned pool_out(const struct pool *p) { return p->out; }

void pool_stop(struct pool *p)
{
    if (p->stopping)
        return;
    p->stopping = true;
    loop_timer_stop(&p->restart);
    loop_timer_stop(&p->grace);
    loop_timer_stop(&p->review);
    LIST_EACH (&p->workers, struct worker, link, w)
        worker_stop(w);
    loop_timer_start(&p->settle, 0, 0);
}

void pool_close(struct pool *p, void (*closed)(void *context), void *context)
{
    pool_stop(p);
    p->closing = true;
    p->closed = closed;
    p->context = context;
    close_when_empty(p);
}
