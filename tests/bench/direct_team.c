/* SPDX-License-Identifier: MIT */
#include "tests/bench/direct_team.h"

#include "tests/bench/direct.h"

#include <stdatomic.h>
#include <stdio.h>

/* Above the ids of all measured kernels. */
#define WARM_UP_ID (1u << 30)

struct shared_team {
    struct bench_gate gate;
    atomic_uint next; /* index of the next kernel to compile */
    atomic_uint_fast64_t begin_ns, end_ns;
};

struct shift {
    const struct direct_team *team;
    struct shared_team *shared_team;
    uint64_t first_id;
};

static enum kiln_code compile_one(struct direct *direct, const struct cold *cold, uint64_t id,
                                  struct kiln_err *err)
{
    char options[COLD_OPTIONS_MAX];
    cold_options(id, options);
    return direct->compile(direct, cold, options, err);
}

static enum kiln_code open_warm(const struct direct_team *team, unsigned index,
                                struct direct *ret_direct, struct kiln_err *err)
{
    char directory[32], work[BENCH_PATH_MAX];
    snprintf(directory, sizeof(directory), "direct-%u", index);
    enum kiln_code rc = bench_path(team->options->work, directory, work, err);
    if (!rc)
        rc = direct_open(team->cold->toolchain, work, ret_direct, err);
    return rc ? rc : compile_one(ret_direct, team->cold, WARM_UP_ID + index, err);
}

static void note_times(struct shared_team *shared_team, uint64_t begin, uint64_t end)
{
    uint_fast64_t first = atomic_load(&shared_team->begin_ns),
                  last = atomic_load(&shared_team->end_ns);
    while ((!first || begin < first) &&
           !atomic_compare_exchange_weak(&shared_team->begin_ns, &first, begin))
        ;
    while (end > last && !atomic_compare_exchange_weak(&shared_team->end_ns, &last, end))
        ;
}

static enum kiln_code run_member(void *context, unsigned index, struct kiln_err *err)
{
    const struct shift *s = context;
    struct direct direct;
    enum kiln_code rc = open_warm(s->team, index, &direct, err);
    if (rc)
        return rc;
    bench_gate_pass(&s->shared_team->gate);
    uint64_t begin = clock_monotonic_ns();
    for (unsigned i = atomic_fetch_add(&s->shared_team->next, 1); !rc && i < s->team->kernels;
         i = atomic_fetch_add(&s->shared_team->next, 1))
        rc = compile_one(&direct, s->team->cold, s->first_id + i, err);
    note_times(s->shared_team, begin, clock_monotonic_ns());
    return rc;
}

enum kiln_code direct_team_run(const struct direct_team *team, uint64_t first_id, double *ret_wall,
                               struct kiln_err *err)
{
    void *memory = NULL;
    enum kiln_code rc = bench_shared(sizeof(struct shared_team), &memory, err);
    struct shift shift = { .team = team, .shared_team = memory, .first_id = first_id };
    if (!rc)
        rc = bench_gate_init(&shift.shared_team->gate, team->processes, err);
    if (!rc)
        rc = bench_fan_out(team->processes, run_member, &shift, err);
    if (!rc)
        *ret_wall = (double)(shift.shared_team->end_ns - shift.shared_team->begin_ns) / 1e9;
    bench_shared_done(memory, sizeof(struct shared_team));
    return rc;
}
