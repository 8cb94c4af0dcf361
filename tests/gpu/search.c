/* SPDX-License-Identifier: MIT */
#include "tests/gpu/search.h"

#include "tests/gpu/judge.h"
#include "tests/gpu/problems.h"

#include <stdio.h>
#include <string.h>

/* The search only tries more configs of a solver if the solver's choice takes at most this many
 * times the best time. */
#define NEAR 2.5
/* number of a problem's fastest configs whose neighbours are tried in each round */
#define CENTRES 2u
/* After this many random configs that are invalid or already known, the search draws no more for
 * this solver. */
#define DRAWS_MAX 20000u

struct found {
    uint32_t problem;
    const struct solver *solver;
    char config[PERF_CONFIG_TEXT_MAX];
    double us; /* median time; 0 if the config was not timed or the result was wrong */
};

struct search {
    const struct search_options *options;
    const struct trials *first;
    struct found *found;
    size_t count, capacity;
    double begin;
};

static enum kiln_code take_results(struct search *s, const struct trials *t, struct kiln_err *err)
{
    if (s->count + t->count > s->capacity) {
        size_t capacity = 2 * (s->count + t->count);
        struct found *grown = realloc(s->found, capacity * sizeof(*grown));
        if (!grown)
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu results", capacity);
        s->found = grown;
        s->capacity = capacity;
    }
    for (size_t i = 0; i < t->count; i++) {
        const struct trial_result *r = trial_result(t, i);
        struct found *f = &s->found[s->count++];
        bool right = atomic_load(&r->state) == TRIAL_RIGHT;
        *f = (struct found){ .problem = t->trials[i].problem,
                             .solver = t->trials[i].solver,
                             .us = right ? r->timing.microseconds : 0 };
        memcpy(f->config, t->trials[i].config, sizeof(f->config));
    }
    return KILN_OK;
}

/* Returns the fastest result of |problem| among those slower than |beyond|, or NULL. */
static const struct found *next_best(const struct search *s, uint32_t problem, double beyond)
{
    const struct found *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct found *f = &s->found[i];
        if (f->problem == problem && f->us > beyond && (!best || f->us < best->us))
            best = f;
    }
    return best;
}

static const struct found *best_of_solver(const struct search *s, uint32_t problem,
                                          const struct solver *solver)
{
    const struct found *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct found *f = &s->found[i];
        if (f->problem == problem && f->solver == solver && f->us > 0 &&
            (!best || f->us < best->us))
            best = f;
    }
    return best;
}

static bool is_known(const struct search *s, const struct trials *next, uint32_t problem,
                     const struct solver *solver, const char *config)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->found[i].problem == problem && s->found[i].solver == solver &&
            strcmp(s->found[i].config, config) == 0)
            return true;
    for (size_t i = next->count; i > 0 && next->trials[i - 1].problem == problem; i--)
        if (next->trials[i - 1].solver == solver && strcmp(next->trials[i - 1].config, config) == 0)
            return true;
    return false;
}

static enum kiln_code try_config(struct search *s, struct trials *next, const struct solver *solver,
                                 const struct perf_config *config, struct kiln_err *err)
{
    uint32_t problem = (uint32_t)next->problem_count - 1;
    char text[PERF_CONFIG_TEXT_MAX];
    if (!solver->config_is_valid(&next->problems[problem], &next->target, config))
        return KILN_OK;
    perf_config_write(config, text);
    if (is_known(s, next, problem, solver, text))
        return KILN_OK;
    return trials_add_config(next, solver, text, err);
}

static uint64_t random_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Draws a random config. Half of the configs take about half of their values from |centre|, because
 * good configs may be rare. */
static void draw_point(uint64_t *state, const struct perf_space *space,
                       const struct perf_config *centre, struct perf_config *ret)
{
    perf_space_at(space, (uint32_t)(random_number(state) % perf_space_size(space)), ret);
    uint64_t kept = random_number(state);
    for (uint32_t i = 0; i < space->count && kept % 2; i++)
        if (kept >> (i + 1) & 1)
            ret->values[i] = centre->values[i];
}

static enum kiln_code add_random(struct search *s, struct trials *next, const struct found *best,
                                 struct kiln_err *err)
{
    const struct problem *problem = &next->problems[next->problem_count - 1];
    struct perf_space space = solver_space(best->solver, problem, &next->target);
    struct perf_config centre;
    const size_t before = next->count;
    uint64_t state = s->options->seed + next->problem_count * 977;
    if (space.count == 0)
        return KILN_OK;
    enum kiln_code rc = perf_config_read(bytes_of_text(best->config), &space, &centre, err);
    for (unsigned i = 0; i < DRAWS_MAX && next->count - before < s->options->random && !rc; i++) {
        struct perf_config config;
        draw_point(&state, &space, &centre, &config);
        rc = try_config(s, next, best->solver, &config, err);
    }
    return rc;
}

static enum kiln_code add_random_of_all(struct search *s, struct trials *next, uint32_t problem,
                                        double best_us, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; solvers[i] && !rc; i++) {
        const struct found *f = best_of_solver(s, problem, solvers[i]);
        if (f && f->us <= NEAR * best_us)
            rc = add_random(s, next, f, err);
    }
    return rc;
}

static bool step_along(const struct perf_axis *axis, bool forward, uint16_t *value)
{
    uint32_t at = 0;
    while (at < axis->count && axis->values[at] != *value)
        at++;
    if (forward ? at + 1 >= axis->count : at == 0)
        return false;
    *value = axis->values[forward ? at + 1 : at - 1];
    return true;
}

static enum kiln_code add_neighbours(struct search *s, struct trials *next,
                                     const struct found *centre, struct kiln_err *err)
{
    const struct problem *problem = &next->problems[next->problem_count - 1];
    struct perf_space space = solver_space(centre->solver, problem, &next->target);
    struct perf_config at_centre;
    if (space.count == 0)
        return KILN_OK;
    enum kiln_code rc = perf_config_read(bytes_of_text(centre->config), &space, &at_centre, err);
    for (uint32_t i = 0; i < 2 * space.count && !rc; i++) {
        struct perf_config config = at_centre;
        if (step_along(&space.axes[i / 2], i % 2, &config.values[i / 2]))
            rc = try_config(s, next, centre->solver, &config, err);
    }
    return rc;
}

static enum kiln_code add_neighbours_of_best(struct search *s, struct trials *next,
                                             uint32_t problem, struct kiln_err *err)
{
    const struct found *centre = next_best(s, problem, 0);
    enum kiln_code rc = KILN_OK;
    for (unsigned i = 0; i < CENTRES && centre && !rc; i++) {
        rc = add_neighbours(s, next, centre, err);
        centre = next_best(s, problem, centre->us);
    }
    return rc;
}

static enum kiln_code make_round(struct search *s, uint32_t round, struct trials *ret_next,
                                 struct kiln_err *err)
{
    struct solution_program judge = judge_program();
    enum kiln_code rc = KILN_OK;
    *ret_next = (struct trials){ .target = s->first->target };
    if (nvrtc_pool_add(&ret_next->pool, &judge, ret_next->target.text) == SIZE_MAX)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the reference's program");
    for (uint32_t p = 0; p < s->first->problem_count && !rc; p++) {
        const struct found *best = next_best(s, p, 0);
        double best_us = best ? best->us : 0;
        rc = trials_add_problem(ret_next, &s->first->problems[p], best_us, err);
        if (!rc && best)
            rc = round == 0 ? add_random_of_all(s, ret_next, p, best_us, err)
                            : add_neighbours_of_best(s, ret_next, p, err);
    }
    return rc || ret_next->count == 0 ? rc : trials_share(ret_next, err);
}

/* Tries the configs of one round. Returns false if the round failed, or if there are no more
 * configs or no more time. */
static bool do_round(struct search *s, uint32_t round, int *status, struct kiln_err *err)
{
    struct watch_options watch = s->options->watch;
    struct trials next;
    watch.run.check_references = 0;
    watch.run.skip_slow = true;
    if (watch.seconds > 0)
        watch.seconds -= watch_now() - s->begin;
    if (s->options->watch.seconds > 0 && watch.seconds <= 1)
        return false;
    enum kiln_code rc = make_round(s, round, &next, err);
    bool any = !rc && next.count > 0;
    if (any) {
        printf("-- round %u\n", (unsigned)round + 1);
        *status = watch_trials(&next, &watch) > *status ? 1 : *status;
        rc = take_results(s, &next, err);
    }
    trials_done(&next);
    return any && !rc;
}

static void print_best(const struct search *s)
{
    printf("-- the best of each problem\n");
    for (uint32_t p = 0; p < s->first->problem_count; p++) {
        const struct problem *problem = &s->first->problems[p];
        const struct found *best = next_best(s, p, 0);
        char text[160];
        problem_label(problem, text, sizeof(text));
        if (best)
            printf("%-44s %-16s %-40s %9.1f us %6.1f TF/s\n", text, best->solver->name,
                   best->config, best->us, problem_flops(problem) / best->us * 1e-6);
        else
            printf("%-44s no trial was right\n", text);
    }
}

int search_best(struct trials *first, const struct search_options *options)
{
    struct search s = { .options = options, .first = first, .begin = watch_now() };
    struct kiln_err err = KILN_ERR_INIT;
    int status = watch_trials(first, &options->watch);
    if (status != 2 && take_results(&s, first, &err) == KILN_OK)
        for (uint32_t i = 0; i <= options->rounds && do_round(&s, i, &status, &err); i++)
            ;
    if (err.code) {
        fprintf(stderr, "gpu_trials: %s\n", err.text);
        status = 2;
    }
    print_best(&s);
    printf("%zu configs in %.1f s\n", s.count, watch_now() - s.begin);
    free(s.found);
    return status;
}
