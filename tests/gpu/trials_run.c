/* SPDX-License-Identifier: MIT */
#include "tests/gpu/gpu_trial.h"

#include "tests/gpu/judge.h"
#include "tests/gpu/loaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 200000L

struct runner {
    struct trials *trials;
    const struct run_options *options;
    struct cuda cuda;
    struct judge judge;
    struct bench bench;
    bool has_bench;
    uint32_t problem;
    double best_us; /* best time of |problem| so far, in microseconds; 0 if none */
    const char *config;
};

static void finish(struct trial_result *r, enum trial_state state, const char *text)
{
    snprintf(r->text, sizeof(r->text), "%.199s", text ? text : "");
    atomic_store(&r->state, state);
}

static void wait_for(const struct shared_object *object)
{
    while (atomic_load(&object->state) == OBJECT_AWAITED)
        nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
}

/* Waits until the trial's programs are compiled. Returns false if a program does not compile;
 * |result| then has the compiler's log. */
static bool take_objects(const struct runner *r, const struct gpu_trial *trial,
                         struct trial_result *result, struct bytes objects[LIMIT_PLAN_KERNELS])
{
    for (uint32_t i = 0; i < trial->program_count; i++) {
        const struct shared_object *o = trial_object(r->trials, trial->programs[i]);
        wait_for(o);
        if (atomic_load(&o->state) == OBJECT_REFUSED) {
            finish(result, TRIAL_UNCOMPILED, trial_object_data(r->trials, o));
            return false;
        }
        objects[i] = bytes_of(trial_object_data(r->trials, o), o->size);
    }
    return true;
}

/* Fills the operands. One in four problems gets numbers whose sums must be rounded, the others
 * BENCH_EXACT. */
static enum kiln_code fill(struct runner *r, uint32_t problem, struct kiln_err *err)
{
    uint64_t seed = r->options->seed + problem;
    return bench_fill(&r->judge, &r->bench, seed % 4 == 3 ? BENCH_GENERAL : BENCH_EXACT, seed, err);
}

static enum kiln_code need_bench(struct runner *r, uint32_t problem, struct kiln_err *err)
{
    if (r->has_bench && r->problem == problem)
        return KILN_OK;
    if (r->has_bench)
        bench_done(&r->judge, &r->bench);
    r->has_bench = false;
    r->problem = problem;
    r->best_us = r->trials->best_us[problem];
    enum kiln_code rc = bench_init(&r->judge, &r->trials->problems[problem], &r->bench, err);
    r->has_bench = rc == KILN_OK;
    if (!rc)
        rc = fill(r, problem, err);
    if (!rc && r->options->verify)
        rc = bench_refer(&r->judge, &r->bench, err);
    return rc;
}

static enum kiln_code judge_output(struct runner *r, const struct loaded *loaded,
                                   struct verdict *ret_verdict, struct kiln_err *err)
{
    struct rounding rounding = bench_rounding(&r->bench, loaded->solution->solver->name, r->config);
    return bench_verdict(&r->judge, &r->bench, &rounding, ret_verdict, err);
}

static enum kiln_code verify(struct runner *r, struct loaded *loaded, struct trial_result *result,
                             struct kiln_err *err)
{
    struct verdict verdict = { .wrong = 0 };
    enum kiln_code rc = fill(r, r->problem, err);
    if (!rc)
        rc = guarded_poison(&r->cuda, &r->bench.tensors[r->bench.output], err);
    if (!rc && loaded->workspace.address)
        rc = guarded_poison(&r->cuda, &loaded->workspace, err);
    if (!rc)
        rc = loaded_launch(loaded, err);
    if (!rc)
        rc = cuda_finish(&r->cuda, err);
    if (!rc)
        rc = judge_output(r, loaded, &verdict, err);
    if (!rc && loaded->workspace.address)
        rc = guarded_check(&r->cuda, &loaded->workspace, "the workspace", err);
    if (!rc)
        result->error = verdict.error;
    return rc;
}

static enum kiln_code measure(struct runner *r, struct loaded *loaded, struct trial_result *result,
                              struct kiln_err *err)
{
    const struct cuda_work work = { .launch = loaded_launch,
                                    .context = loaded,
                                    .hopeless_us = r->best_us * r->options->hopeless };
    enum kiln_code rc = bench_fill(&r->judge, &r->bench, BENCH_GENERAL, r->options->seed, err);
    return rc ? rc : cuda_time(&r->cuda, &work, &result->timing, err);
}

/* Verifies once more after the timed launches. A launch may leave something behind, such as a
 * workspace that is not cleared, that spoils the next launch. */
static enum kiln_code verify_again(struct runner *r, struct loaded *loaded, struct kiln_err *err)
{
    struct verdict verdict;
    enum kiln_code rc = fill(r, r->problem, err);
    if (!rc)
        rc = loaded_launch(loaded, err);
    if (!rc)
        rc = cuda_finish(&r->cuda, err);
    return rc ? rc : judge_output(r, loaded, &verdict, err);
}

/* Returns true if the trial need not be verified, because it is much slower than the best correct
 * one. */
static bool is_slow(const struct runner *r, const struct trial_result *result)
{
    return r->options->skip_slow && r->best_us > 0 &&
           result->timing.microseconds > r->best_us * r->options->hopeless;
}

static enum kiln_code run_loaded(struct runner *r, struct loaded *loaded,
                                 struct trial_result *result, enum trial_state *ret_state,
                                 struct kiln_err *err)
{
    const struct run_options *o = r->options;
    enum kiln_code rc = KILN_OK;
    result->resources = loaded->most;
    result->workspace = loaded->workspace.bytes;
    if (o->verify && !o->skip_slow)
        rc = verify(r, loaded, result, err);
    if (!rc && o->time)
        rc = measure(r, loaded, result, err);
    if (!rc && is_slow(r, result)) {
        *ret_state = TRIAL_SLOW;
        return KILN_OK;
    }
    if (!rc && o->verify)
        rc = o->skip_slow ? verify(r, loaded, result, err)
             : o->time    ? verify_again(r, loaded, err)
                          : KILN_OK;
    double us = result->timing.microseconds;
    if (!rc && us > 0 && (r->best_us == 0 || us < r->best_us))
        r->best_us = us;
    return rc;
}

static enum kiln_code run_trial(struct runner *r, size_t index, struct solution *solution,
                                struct kiln_err *err)
{
    const struct gpu_trial *trial = &r->trials->trials[index];
    struct trial_result *result = trial_result(r->trials, index);
    struct bytes objects[LIMIT_PLAN_KERNELS];
    struct solver_choice choice = { bytes_of_text(trial->solver->name),
                                    bytes_of_text(trial->config) };
    struct loaded loaded = { .cuda = &r->cuda, .solution = solution, .bench = &r->bench };
    enum trial_state state = TRIAL_RIGHT;
    r->config = trial->config;
    if (!take_objects(r, trial, result, objects))
        return KILN_OK;
    enum kiln_code rc = need_bench(r, trial->problem, err);
    atomic_store(&result->state, TRIAL_RUNS);
    if (!rc)
        rc = solver_solve(&r->trials->problems[trial->problem], &r->trials->target, &choice,
                          solution, err);
    if (!rc)
        rc = loaded_open(&loaded, objects, err);
    if (!rc) {
        rc = run_loaded(r, &loaded, result, &state, err);
        if (!r->cuda.is_lost)
            loaded_close(&loaded);
    }
    finish(result,
           rc == KILN_OK        ? state
           : rc == KILN_CORRUPT ? TRIAL_WRONG
                                : TRIAL_FAILED,
           rc ? err->text : NULL);
    return rc;
}

static enum kiln_code open_all(struct runner *r, struct kiln_err *err)
{
    /* program 0 is the judge's reference */
    const struct shared_object *o = trial_object(r->trials, 0);
    enum kiln_code rc = cuda_open(&r->cuda, err);
    if (rc)
        return rc;
    wait_for(o);
    if (atomic_load(&o->state) == OBJECT_REFUSED)
        return kiln_fail(err, KILN_COMPILE_FAILED, "the reference does not compile: %s",
                         (const char *)trial_object_data(r->trials, o));
    return judge_open(&r->cuda, bytes_of(trial_object_data(r->trials, o), o->size), &r->judge, err);
}

int trials_run(struct trials *trials, size_t first, const struct run_options *options)
{
    struct runner r = { .trials = trials, .options = options };
    struct kiln_err err = KILN_ERR_INIT;
    struct solution *solution = malloc(sizeof(*solution));
    enum kiln_code rc = solution ? open_all(&r, &err) : KILN_NO_MEMORY;
    if (!rc && first == 0)
        rc = judge_check_itself(&r.judge, options->check_references, &err);
    if (rc) {
        fprintf(stderr, "gpu_trials: %s\n", err.text);
        return 2;
    }
    for (size_t i = first; i < trials->count; i++) {
        err = KILN_ERR_INIT;
        (void)run_trial(&r, i, solution, &err);
        if (r.cuda.is_lost)
            return 1; /* the CUDA context is lost; another process must run the other trials */
    }
    free(solution);
    if (r.has_bench)
        bench_done(&r.judge, &r.bench);
    judge_close(&r.judge);
    cuda_close(&r.cuda);
    return 0;
}
