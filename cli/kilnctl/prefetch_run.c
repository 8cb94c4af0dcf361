/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/prefetch_run.h"

#include "cli/interrupt.h"
#include "cli/kilnctl/built_name.h"
#include "cli/kilnctl/prefetch_check.h"
#include "cli/lines.h"
#include "common/base/clock.h"

#include <string.h>

/* Number of problems in one request if --jobs is not given. Since each request has its own timeout,
 * a kilnd that does not answer is noticed after TIMEOUT_MS, not only at the end of a long file. */
#define BATCH 256u
/* Timeout of a request if --timeout is not given: enough for BATCH kernels of a few seconds each on
 * a machine with one core. */
#define TIMEOUT_MS (30 * 60 * 1000)

/* kilnd numbers the answers of a batch from 0. |first| is the index of the batch's first problem in
 * the whole prefetch. */
struct batch {
    struct prefetch *prefetch;
    size_t first;
};

static void note_failure(struct prefetch *p, unsigned line, const char *what,
                         const struct kiln_error *err)
{
    size_t before = p->report.recorded;
    prefetch_report_failure(&p->report, line, what, err);
    progress_clear(&p->progress);
    if (!p->json && p->report.recorded > before)
        prefetch_report_print_failure(&p->report, before, stderr);
}

static void read_line(struct prefetch *p, const struct line *line, struct kiln_error *err)
{
    struct kiln_problem problems[3];
    struct kiln_error why = { 0 };
    unsigned count = 0;
    int rc = kiln_problem_from_driver(line->text, problems, &count, &why);
    for (unsigned i = 0; !rc && i < count; i++)
        rc = problem_set_add(&p->problems, &problems[i], line->number, &why);
    if (rc == KILN_E_NO_MEMORY)
        *err = why;
    if (rc)
        note_failure(p, line->number, line->text, &why);
}

static int read_problems(struct prefetch *p, const char *path, struct kiln_error *err)
{
    LINE_FILE_AUTO struct line_file file = { 0 };
    int rc = line_file_read(path, &file, err);
    for (size_t i = 0; !rc && i < file.count; i++) {
        read_line(p, &file.lines[i], err);
        rc = err->code;
    }
    if (!rc && file.count == 0)
        rc = cli_fail(err, KILN_E_INVALID, "'%s' contains no MIOpenDriver command lines", path);
    p->report.lines = file.count;
    p->report.problems = p->problems.count;
    p->report.repeats = p->problems.repeats;
    return rc;
}

static void note_answer(struct prefetch *p, size_t index, const struct kiln_plan *plan,
                        const struct kiln_error *why)
{
    char text[512] = "";
    struct kiln_error unused = { 0 };
    pthread_mutex_lock(&p->lock);
    if (plan) {
        if (p->question->on_plan)
            p->question->on_plan(p->question->context, plan);
        prefetch_report_plan(&p->report, plan);
    } else {
        if (kiln_problem_to_driver(&p->problems.problems[index], text, sizeof(text), &unused))
            snprintf(text, sizeof(text), "%s", unused.text);
        note_failure(p, p->problems.lines[index], text, why);
    }
    progress_update(&p->progress, p->report.done + p->report.failed, p->report.failed,
                    clock_monotonic_ns());
    pthread_mutex_unlock(&p->lock);
}

static bool is_over(const struct prefetch *p)
{
    return p->question->until_ns && clock_monotonic_ns() >= p->question->until_ns;
}

static int on_plan(void *context, size_t index, struct kiln_plan *plan,
                   const struct kiln_error *err)
{
    struct batch *batch = context;
    note_answer(batch->prefetch, batch->first + index, plan, err);
    return is_over(batch->prefetch);
}

int prefetch_time_left_ms(uint64_t until_ns, int timeout_ms)
{
    uint64_t now = clock_monotonic_ns();
    if (until_ns == 0)
        return timeout_ms;
    uint64_t left_ms = until_ns > now ? (until_ns - now) / 1000000u + 1 : 1;
    return left_ms < (uint64_t)timeout_ms ? (int)left_ms : timeout_ms;
}

static int run_batches(struct prefetch *p, struct kiln_error *err)
{
    int rc = KILN_E_OK, timeout_ms = p->options.timeout_ms;
    for (size_t first = atomic_load(&p->next); !rc && first < p->problems.count; first += BATCH) {
        p->options.timeout_ms = prefetch_time_left_ms(p->question->until_ns, timeout_ms);
        size_t left = p->problems.count - first;
        struct batch batch = { .prefetch = p, .first = first };
        const struct kiln_plan_batch call = { .size = sizeof(call),
                                              .problems = p->problems.problems + first,
                                              .count = left < BATCH ? left : BATCH,
                                              .options = &p->options,
                                              .ready = on_plan,
                                              .context = &batch };
        rc = kiln_plan_batch(p->client, &call, err);
    }
    p->is_cut = (rc == KILN_E_CANCELLED || rc == KILN_E_TIMED_OUT) && is_over(p);
    if (p->is_cut)
        *err = (struct kiln_error){ 0 };
    return p->is_cut ? KILN_E_OK : rc;
}

static bool is_end(int code)
{
    return code == KILN_E_UNAVAILABLE || code == KILN_E_TIMED_OUT || code == KILN_E_DENIED;
}

static void stop_prefetch(struct prefetch *p, const struct kiln_error *why)
{
    pthread_mutex_lock(&p->lock);
    if (!p->broken) {
        p->broken = why->code;
        p->err = *why;
    }
    pthread_mutex_unlock(&p->lock);
    atomic_store(&p->next, p->problems.count);
}

static void *request_plans(void *context)
{
    struct prefetch *p = context;
    for (size_t i = atomic_fetch_add(&p->next, 1); i < p->problems.count;
         i = atomic_fetch_add(&p->next, 1)) {
        struct kiln_plan *plan = NULL;
        struct kiln_error why = { 0 };
        int rc = kiln_plan_get(p->client, &p->problems.problems[i], &p->options, &plan, &why);
        if (is_end(rc))
            stop_prefetch(p, &why);
        else
            note_answer(p, i, plan, &why);
        kiln_plan_unref(plan);
    }
    return NULL;
}

static int run_threads(struct prefetch *p, size_t count, struct kiln_error *err)
{
    pthread_t threads[PREFETCH_JOBS_MAX];
    size_t started = 0;
    while (started + 1 < count && pthread_create(&threads[started], NULL, request_plans, p) == 0)
        started++;
    request_plans(p);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (p->broken)
        *err = p->err;
    return p->broken;
}

static int judge_prefetch(const struct prefetch *p, int rc, struct kiln_error *err)
{
    const struct prefetch_report *r = &p->report;
    if (rc)
        return cli_while(err, "after %zu of %zu problems", r->done + r->failed, r->problems);
    if (r->incomplete)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory: the report is not complete");
    if (r->failed)
        return cli_fail(err, KILN_E_COMPILE_FAILED, "%zu failed, %zu of %zu problems are ready",
                        r->failed, r->done, r->problems);
    return KILN_E_OK;
}

/* Returns the error that all problems share, or KILN_E_OK if the others may succeed. */
static int judge_first(const struct prefetch *p, int rc, const struct kiln_error *why,
                       struct kiln_error *err)
{
    const struct prefetch_question *question = p->question;
    bool doubtful = false;
    int checked =
        prefetch_check(question->invocation, question->target, question->toolchain, &doubtful, err);
    if (checked)
        return checked;
    if (!doubtful && !is_end(rc) && rc != KILN_E_NOT_FOUND)
        return KILN_E_OK;
    *err = *why;
    return rc;
}

/* Requests the first problem alone: if it fails for a reason that all problems share, the others
 * need not be requested. */
static int try_first(struct prefetch *p, struct kiln_error *err)
{
    struct kiln_plan *plan = NULL;
    struct kiln_error why = { 0 };
    struct kiln_plan_options options = p->options;
    if (p->problems.count == 0)
        return KILN_E_OK;
    options.timeout_ms = prefetch_time_left_ms(p->question->until_ns, options.timeout_ms);
    int rc = kiln_plan_get(p->client, &p->problems.problems[0], &options, &plan, &why);
    p->is_cut = rc == KILN_E_TIMED_OUT && is_over(p);
    if (p->is_cut)
        return KILN_E_OK;
    if (rc) {
        rc = judge_first(p, rc, &why, err);
        if (rc)
            return rc;
    }
    atomic_store(&p->next, 1);
    note_answer(p, 0, plan, &why);
    kiln_plan_unref(plan);
    return KILN_E_OK;
}

static int request_problems(struct prefetch *p, size_t jobs, struct kiln_error *err)
{
    const struct prefetch_question *question = p->question;
    bool tries_first =
        (p->options.solver && question->path) ||
        !prefetch_is_known_to_work(question->invocation, question->target, question->toolchain);
    struct ticker ticker;
    uint64_t started = clock_monotonic_ns();
    progress_init(&p->progress, stderr, p->label,
                  p->problems.count + p->report.done + p->report.failed, started);
    int rc = tries_first ? try_first(p, err) : KILN_E_OK;
    if (rc || p->is_cut)
        return rc;
    interrupt_says("kilnctl", "kernels that are compiled stay in the cache; the same command "
                              "compiles the others");
    ticker_start(&ticker, &p->progress, &p->lock);
    rc = jobs ? run_threads(p, jobs, err) : run_batches(p, err);
    ticker_stop(&ticker);
    progress_clear(&p->progress);
    p->report.seconds += (double)(clock_monotonic_ns() - started) / 1e9;
    p->begun = !rc || p->report.done + p->report.failed > 0;
    return p->begun ? judge_prefetch(p, rc, err) : rc;
}

static void begin_prefetch(struct prefetch *p, const struct prefetch_question *question)
{
    const struct session_options *common = question->invocation->common;
    int timeout_ms = session_timeout_ms(common);
    p->client = question->invocation->client;
    p->options = (struct kiln_plan_options){ .size = sizeof(p->options),
                                             .target = question->target,
                                             .database_id = question->database_id,
                                             .solver = question->solver,
                                             .toolchain = question->toolchain,
                                             .priority = KILN_PREFETCH,
                                             .no_objects = 1,
                                             .timeout_ms = timeout_ms ? timeout_ms : TIMEOUT_MS };
    p->question = question;
    p->label = question->label;
    p->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    p->json = common->json;
    p->is_cut = false;
    p->broken = 0;
    atomic_store(&p->next, 0);
}

static int take_problems(struct prefetch *p, struct kiln_error *err)
{
    const struct prefetch_question *question = p->question;
    if (question->path)
        return read_problems(p, question->path, err);
    int rc = KILN_E_OK;
    problem_set_done(&p->problems);
    for (size_t i = 0; !rc && i < question->problems->count; i++)
        rc = problem_set_add(&p->problems, &question->problems->problems[i],
                             question->problems->lines[i], err);
    p->report.problems += p->problems.count;
    return rc;
}

int prefetch_run(const struct prefetch_question *question, struct prefetch *ret_prefetch,
                 struct kiln_error *err)
{
    struct prefetch *p = ret_prefetch;
    begin_prefetch(p, question);
    int rc = device_id_check(question->database_id, question->target, err);
    if (!rc)
        rc = take_problems(p, err);
    return rc ? rc : request_problems(p, question->jobs, err);
}

void prefetch_done(struct prefetch *p)
{
    problem_set_done(&p->problems);
    prefetch_report_done(&p->report);
}
