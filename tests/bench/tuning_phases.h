/* SPDX-License-Identifier: MIT */
#pragma once

/* The phases of bench_tuning. Each function measures one phase and prints the results.
 *
 * Threading  the functions fork, so call them before any thread starts */
#include "tests/bench/tuning_way.h"

#define PHASE_ROUNDS_MAX 8u
#define PHASE_PROCESSES_MAX 8u
#define PHASE_WAYS_MAX 8u

struct json *phase_result(const char *bench, const struct tuning_data *data);

/* Measures kiln's import into the new state directory place->state. For comparison, measures the
 * programs wc and sort with the same file. Afterwards, |daemon_state| also contains the imported
 * database. */
KILN_MUST_CHECK enum kiln_code phase_import(const struct way_place *place, const char *daemon_state,
                                            unsigned rounds, struct kiln_err *err);

/* one way to get a first answer; phase_first measures how long a new process takes */
struct phase_first {
    const struct tuning_way *way;
    bool connected; /* whether the process connects before the measurement */
};
struct phase_firsts {
    const struct phase_first *ways;
    size_t way_count;
    /* |processes| new processes start at the same time in each round */
    unsigned processes, rounds;
};
KILN_MUST_CHECK enum kiln_code phase_first(const struct way_place *place,
                                           const struct phase_firsts *firsts, struct kiln_err *err);

struct phase_setting {
    const struct tuning_way *ways[PHASE_WAYS_MAX + 1]; /* ends with NULL */
    /* |rounds| includes the first round, which only warms up */
    unsigned processes, rounds;
    enum bench_cpus cpus;
    /* the clients are pinned to this CPU unless |cpus| is CPUS_ANY; the caller pins the servers */
    unsigned cpu;
};
/* Measures look-ups in processes that have already opened all ways. */
KILN_MUST_CHECK enum kiln_code phase_look_up(const struct way_place *place,
                                             const struct phase_setting *setting,
                                             struct kiln_err *err);
/* Measures one call of libkiln that looks up 1 000 problems. Uses only |cpus| and |cpu| of
 * |setting|. */
KILN_MUST_CHECK enum kiln_code phase_batch(const struct way_place *place,
                                           const struct phase_setting *setting,
                                           struct kiln_err *err);
