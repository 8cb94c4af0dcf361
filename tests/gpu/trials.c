/* SPDX-License-Identifier: MIT */
#include "tests/gpu/gpu_trial.h"

#include "tests/gpu/judge.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Address space for the objects. Pages only use memory once they are written. */
#define OBJECTS_MAX ((size_t)8 << 30)
/* After this many random configs that are invalid or already added, no more are drawn for this
 * solver. */
#define DRAWS_MAX 100000u

struct trials_shared {
    size_t size;
    atomic_size_t used;
    atomic_size_t next;
    atomic_size_t at[TRIAL_COMPILERS_MAX];
    size_t objects_at, results_at, slots_at;
};

enum kiln_code trials_add_config(struct trials *t, const struct solver *solver, const char *config,
                                 struct kiln_err *err)
{
    const struct problem *problem = &t->problems[t->problem_count - 1];
    struct solver_choice choice = { bytes_of_text(solver->name), bytes_of_text(config) };
    KILN_AUTO(mem) struct solution *solution = malloc(sizeof(*solution));
    if (t->count == t->capacity) {
        size_t capacity = t->capacity * 2 + 256;
        struct gpu_trial *grown = realloc(t->trials, capacity * sizeof(*grown));
        if (!grown)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu trials", capacity);
        t->trials = grown;
        t->capacity = capacity;
    }
    if (!solution)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a solution");
    enum kiln_code rc = solver_solve(problem, &t->target, &choice, solution, err);
    if (rc)
        return rc;
    struct gpu_trial *trial = &t->trials[t->count];
    *trial = (struct gpu_trial){ .problem = (uint32_t)t->problem_count - 1,
                                 .solver = solver,
                                 .program_count = solution->program_count };
    perf_config_write(&solution->config, trial->config);
    for (uint32_t i = 0; i < solution->program_count; i++) {
        size_t program = nvrtc_pool_add(&t->pool, &solution->programs[i], t->target.text);
        if (program == SIZE_MAX)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for a program");
        trial->programs[i] = (uint32_t)program;
    }
    t->count++;
    return KILN_OK;
}

static enum kiln_code add_every(struct trials *t, const struct problem *problem,
                                const struct solver *solver, const struct perf_space *space,
                                struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (uint32_t i = 0; i < perf_space_size(space) && !rc; i++) {
        struct perf_config config;
        char text[PERF_CONFIG_TEXT_MAX];
        perf_space_at(space, i, &config);
        perf_config_write(&config, text);
        if (solver->config_is_valid(problem, &t->target, &config))
            rc = trials_add_config(t, solver, text, err);
    }
    return rc;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static bool is_new(const struct trials *t, size_t since, const char *config)
{
    for (size_t i = since; i < t->count; i++)
        if (strcmp(t->trials[i].config, config) == 0)
            return false;
    return true;
}

static enum kiln_code add_random(struct trials *t, const struct solver *solver,
                                 const struct perf_space *space,
                                 const struct trials_selection *selection, struct kiln_err *err)
{
    const struct problem *problem = &t->problems[t->problem_count - 1];
    size_t since = t->count - 1, draws = 0;
    uint64_t state = selection->seed + t->problem_count * 977;
    uint32_t size = perf_space_size(space);
    enum kiln_code rc = KILN_OK;
    while (t->count - since <= selection->random && draws++ < DRAWS_MAX && size > 0 && !rc) {
        struct perf_config config;
        char text[PERF_CONFIG_TEXT_MAX];
        perf_space_at(space, (uint32_t)(next(&state) % size), &config);
        perf_config_write(&config, text);
        if (solver->config_is_valid(problem, &t->target, &config) && is_new(t, since, text))
            rc = trials_add_config(t, solver, text, err);
    }
    return rc;
}

static enum kiln_code add_solver(struct trials *t, const struct problem *problem,
                                 const struct solver *solver,
                                 const struct trials_selection *selection, struct kiln_err *err)
{
    struct perf_space space = solver_space(solver, problem, &t->target);
    if (!selection->config && selection->random == CONFIGS_ALL && space.count > 0)
        return add_every(t, problem, solver, &space, err);
    enum kiln_code rc =
        trials_add_config(t, solver, selection->config ? selection->config : "", err);
    if (!rc && !selection->config && selection->random > 0 && selection->random != CONFIGS_ALL)
        rc = add_random(t, solver, &space, selection, err);
    return rc;
}

static bool is_wanted(const struct trials_selection *selection, const struct solver *solver)
{
    return (!selection->solver || strcmp(selection->solver, solver->name) == 0) &&
           (!selection->without || strcmp(selection->without, solver->name) != 0);
}

enum kiln_code trials_add_problem(struct trials *t, const struct problem *problem, double best_us,
                                  struct kiln_err *err)
{
    size_t count = t->problem_count + 1;
    struct problem *problems = realloc(t->problems, count * sizeof(*problems));
    if (problems)
        t->problems = problems;
    double *times = realloc(t->best_us, count * sizeof(*times));
    if (times)
        t->best_us = times;
    if (!problems || !times)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the problems");
    problems[t->problem_count] = *problem;
    times[t->problem_count++] = best_us;
    return problem_check(problem, err);
}

enum kiln_code trials_add(struct trials *t, const struct problem *problem,
                          const struct trials_selection *selection, struct kiln_err *err)
{
    enum kiln_code rc = trials_add_problem(t, problem, 0, err);
    for (size_t i = 0; solvers[i] && !rc; i++)
        if (is_wanted(selection, solvers[i]) && solvers[i]->applies(problem, &t->target))
            rc = add_solver(t, problem, solvers[i], selection, err);
    return rc;
}

static size_t rounded(size_t size) { return (size + 63) & ~(size_t)63; }

enum kiln_code trials_share(struct trials *t, struct kiln_err *err)
{
    struct trials_shared layout = { .results_at = rounded(sizeof(struct trials_shared)) };
    layout.slots_at = layout.results_at + rounded(t->count * sizeof(struct trial_result));
    layout.objects_at = layout.slots_at + rounded(t->pool.count * sizeof(struct shared_object));
    layout.size = layout.objects_at + OBJECTS_MAX;
    void *memory = mmap(NULL, layout.size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory that processes share");
    t->shared = memory;
    *t->shared = layout;
    for (size_t i = 0; i < TRIAL_COMPILERS_MAX; i++)
        atomic_init(&t->shared->at[i], SIZE_MAX);
    return KILN_OK;
}

void trials_done(struct trials *t)
{
    if (t->shared)
        munmap(t->shared, t->shared->size);
    nvrtc_pool_done(&t->pool);
    free(t->problems);
    free(t->best_us);
    free(t->trials);
    *t = (struct trials){ .count = 0 };
}

struct trial_result *trial_result(const struct trials *t, size_t index)
{
    char *base = (char *)t->shared + t->shared->results_at;
    return (struct trial_result *)(void *)base + index;
}

struct shared_object *trial_object(const struct trials *t, size_t program)
{
    char *base = (char *)t->shared + t->shared->slots_at;
    return (struct shared_object *)(void *)base + program;
}

const void *trial_object_data(const struct trials *t, const struct shared_object *object)
{
    return (const char *)t->shared + t->shared->objects_at + object->offset;
}

static void publish(struct trials *t, size_t index)
{
    struct nvrtc_program *p = t->pool.programs[index];
    struct shared_object *o = trial_object(t, index);
    const char *log = p->log ? p->log : "the compiler crashed";
    const void *data = p->object ? p->object : (const void *)log;
    size_t size = p->object ? p->size : strlen(log) + 1;
    size_t at = atomic_fetch_add(&t->shared->used, rounded(size));
    bool fits = at + size <= OBJECTS_MAX;
    if (fits) {
        o->offset = at;
        o->size = (uint32_t)size;
        memcpy((char *)t->shared + t->shared->objects_at + at, data, size);
    }
    free(p->object);
    p->object = NULL;
    atomic_store(&o->state, fits && data != log ? OBJECT_MADE : OBJECT_REFUSED);
}

int trials_compile(struct trials *t, unsigned compiler)
{
    struct nvrtc nvrtc;
    struct kiln_err err = KILN_ERR_INIT;
    size_t i;
    if (nvrtc_open(&nvrtc, &err)) {
        fprintf(stderr, "gpu_trials: %s\n", err.text);
        return 2;
    }
    while ((i = atomic_fetch_add(&t->shared->next, 1)) < t->pool.count) {
        atomic_store(&t->shared->at[compiler], i);
        nvrtc_compile(&nvrtc, t->pool.programs[i]);
        publish(t, i);
    }
    atomic_store(&t->shared->at[compiler], SIZE_MAX);
    return 0;
}

bool trials_compiler_died(struct trials *t, unsigned compiler)
{
    size_t i = atomic_load(&t->shared->at[compiler]);
    if (i < t->pool.count && atomic_load(&trial_object(t, i)->state) == OBJECT_AWAITED)
        publish(t, i); /* without an object, the program counts as not compiling */
    return atomic_load(&t->shared->next) < t->pool.count;
}
