/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The phases of bench_tuning, which prints the results of each phase.
 *
 * Threading  the functions fork, so call them before any thread starts
 */
#include "tests/bench/tuning_way.h"

#define PHASE_ROUNDS_MAX 8u
#define PHASE_PROCESSES_MAX 8u
#define PHASE_WAYS_MAX 8u

struct json *phase_result(const char *bench, const struct tuning_data *data);

/* Times kiln's import into a new state directory place->state, and runs of wc and sort on the same
 * file. Afterwards, both place->state and |daemon_state| contain the imported database. */
KILN_MUST_CHECK enum kiln_code phase_import(const struct way_place *place, const char *daemon_state,
                                            unsigned rounds, struct kiln_err *err);

struct phase_first { /* a measurement of a new process, up to its first answer */
    const struct tuning_way *way;
    bool connected; /* the process connects before the measurement */
};
struct phase_firsts {
    const struct phase_first *ways;
    size_t way_count;
    /* number of new processes that start at once in each round, and number of rounds */
    unsigned processes, rounds;
};
KILN_MUST_CHECK enum kiln_code phase_first(const struct way_place *place,
                                           const struct phase_firsts *firsts, struct kiln_err *err);

struct phase_setting {
    const struct tuning_way *ways[PHASE_WAYS_MAX + 1]; /* ends with NULL */
    unsigned processes, rounds;                        /* the first round warms up */
    enum bench_cpus cpus;
    unsigned cpu; /* CPU of the clients, unless |cpus| is CPUS_ANY; the caller pins the servers */
};
/* Measures look-ups by processes that have already opened every way. */
KILN_MUST_CHECK enum kiln_code phase_look_up(const struct way_place *place,
                                             const struct phase_setting *setting,
                                             struct kiln_err *err);
/* Measures one call of libkiln for 1 000 problems. Uses only |cpus| and |cpu| of |setting|. */
KILN_MUST_CHECK enum kiln_code phase_batch(const struct way_place *place,
                                           const struct phase_setting *setting,
                                           struct kiln_err *err);
