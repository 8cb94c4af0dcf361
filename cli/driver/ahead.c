/* SPDX-License-Identifier: MIT */
#include "cli/driver/ahead.h"

#include "cli/driver/job.h"
#include "cli/driver/tensors.h"
#include "cli/problem_set.h"
#include "common/base/json.h"

#include <kiln/solutions.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define ANSWER_MS 120000
#define TIMEOUT_MAX_MS (30 * 60 * 1000)

/* The problems of one request.  A request has one set of options, so all its problems have the same
 * |solver|. */
struct batch {
    char solver[sizeof(((struct kiln_driver_line *)0)->solver)];
    struct problem_set problems;
};

struct ahead {
    const struct bench *bench;
    int answer_ms;
    struct kiln_client *client;
    struct batch *batches;
    size_t count;
    atomic_bool stop;
    pthread_t thread;
};

static void ahead_destroy(struct ahead *ahead)
{
    if (!ahead)
        return;
    for (size_t i = 0; i < ahead->count; i++)
        problem_set_done(&ahead->batches[i].problems);
    free(ahead->batches);
    kiln_client_close(ahead->client);
    free(ahead);
}
static inline void ahead_auto(struct ahead **ahead) { ahead_destroy(*ahead); }

static struct batch *find_batch(struct ahead *ahead, const char *solver)
{
    for (size_t i = 0; i < ahead->count; i++)
        if (strcmp(ahead->batches[i].solver, solver) == 0)
            return &ahead->batches[i];
    struct batch *grown = reallocarray(ahead->batches, ahead->count + 1, sizeof(*grown));
    if (!grown)
        return NULL;
    ahead->batches = grown;
    struct batch *batch = &grown[ahead->count++];
    *batch = (struct batch){ 0 };
    snprintf(batch->solver, sizeof(batch->solver), "%s", solver);
    return batch;
}

/* Returns whether the problem fits into memory.  The run skips problems that do not. */
static bool will_run(const struct kiln_driver_line *job, const struct kiln_problem *problem)
{
    struct tensors_options options = { .verify = job->verify };
    struct kiln_error unused = { 0 };
    return tensors_check(problem, &options, &unused) == KILN_E_OK;
}

static bool add_line(struct ahead *ahead, const struct line *line)
{
    struct kiln_driver_line job;
    struct kiln_error unused = { 0 };
    if (job_parse(line->text, &job, &unused))
        return true;
    struct batch *batch = find_batch(ahead, job.solver);
    bool added = batch != NULL;
    for (unsigned i = 0; added && i < job.count; i++)
        if (will_run(&job, &job.problems[i]))
            added = problem_set_add(&batch->problems, &job.problems[i], line->number, &unused) ==
                    KILN_E_OK;
    return added;
}

static int on_plan(void *context, size_t index, struct kiln_plan *plan,
                   const struct kiln_error *err)
{
    struct ahead *ahead = context;
    (void)index, (void)plan, (void)err;
    return atomic_load(&ahead->stop);
}

/* Returns the time-out of a request for |count| problems: the time that the run would wait for
 * these problems if kilnd never answered, but at most TIMEOUT_MAX_MS. */
static int timeout_ms(const struct ahead *ahead, size_t count)
{
    uint64_t ms = (uint64_t)ahead->answer_ms * count;
    return ms < TIMEOUT_MAX_MS ? (int)ms : TIMEOUT_MAX_MS;
}

/* Returns whether find will time the solvers and so need the kernels of all solvers.  The normal
 * mode always times the solvers.  The other modes time them only if no time is recorded for the
 * first solver of |list|. */
static bool will_time(const struct ahead *ahead, const struct kiln_solutions *list)
{
    struct kiln_solution first = { .size = sizeof(first) };
    struct kiln_error unused = { 0 };
    return kiln_solutions_at(list, 0, &first, &unused) == KILN_E_OK &&
           (ahead->bench->find->mode == KILN_FIND_NORMAL || !(first.find_ms > 0));
}

static bool add_each_solver(struct ahead *ahead, const struct kiln_problem *problem, unsigned line,
                            const struct kiln_solutions *list)
{
    struct kiln_error unused = { 0 };
    for (unsigned i = 0; i < kiln_solutions_count(list); i++) {
        struct kiln_solution solution = { .size = sizeof(solution) };
        if (kiln_solutions_at(list, i, &solution, &unused))
            return false;
        struct batch *batch = find_batch(ahead, solution.solver);
        if (!batch || problem_set_add(&batch->problems, problem, line, &unused))
            return false;
    }
    return true;
}

static void expand_problem(struct ahead *ahead, size_t at, size_t index)
{
    const struct kiln_problem problem = ahead->batches[at].problems.problems[index];
    const unsigned line = ahead->batches[at].problems.lines[index];
    struct kiln_plan_options options = bench_plan_options(ahead->bench, "");
    struct kiln_solutions *list = NULL;
    struct kiln_error unused = { 0 };
    if (kiln_solutions_get(ahead->client, &problem, &options, &list, &unused))
        return;
    if (will_time(ahead, list))
        (void)add_each_solver(ahead, &problem, line, list);
    kiln_solutions_free(list);
}

static void expand_batches(struct ahead *ahead)
{
    size_t count = ahead->count;
    if (!ahead->bench->find || ahead->bench->find->mode == KILN_FIND_FAST)
        return;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; !*ahead->batches[i].solver && k < ahead->batches[i].problems.count &&
                           !atomic_load(&ahead->stop);
             k++)
            expand_problem(ahead, i, k);
}

static void *request_plans(void *context)
{
    struct ahead *ahead = context;
    expand_batches(ahead);
    for (size_t i = 0; i < ahead->count && !atomic_load(&ahead->stop); i++) {
        const struct problem_set *set = &ahead->batches[i].problems;
        struct kiln_plan_options options =
            bench_plan_options(ahead->bench, ahead->batches[i].solver);
        struct kiln_error unused = { 0 };
        options.priority = KILN_PREFETCH;
        options.no_objects = 1;
        options.timeout_ms = timeout_ms(ahead, set->count);
        const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                               .problems = set->problems,
                                               .count = set->count,
                                               .options = &options,
                                               .ready = on_plan,
                                               .context = ahead };
        if (set->count > 0 && kiln_plan_batch(ahead->client, &batch, &unused))
            break;
    }
    return NULL;
}

struct ahead *ahead_start(const struct bench *bench, const struct session_options *session,
                          const struct line_file *file)
{
    KILN_AUTO(ahead) struct ahead *ahead = calloc(1, sizeof(*ahead));
    struct kiln_error unused = { 0 };
    if (!ahead || session_open(session, "kiln-driver", NULL, &ahead->client, &unused))
        return NULL;
    int given_ms = session_timeout_ms(session);
    ahead->bench = bench;
    ahead->answer_ms = given_ms ? given_ms : ANSWER_MS;
    for (size_t i = 0; i < file->count; i++)
        if (!add_line(ahead, &file->lines[i]))
            return NULL;
    if (ahead->count == 0 || pthread_create(&ahead->thread, NULL, request_plans, ahead) != 0)
        return NULL;
    return KILN_TAKE(ahead);
}

void ahead_stop(struct ahead *ahead)
{
    if (!ahead)
        return;
    atomic_store(&ahead->stop, true);
    pthread_join(ahead->thread, NULL);
    ahead_destroy(ahead);
}
