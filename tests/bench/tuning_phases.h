/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What bench_tuning measures, phase by phase; each prints its results.
 *
 * Role       bench_tuning.c prepares data and servers and calls these in turn
 * Threading  they fork: call them before any thread is started
 */
#include "tests/bench/tuning_way.h"

#define PHASE_ROUNDS_MAX 8u
#define PHASE_PROCESSES_MAX 8u
#define PHASE_WAYS_MAX 8u

/* A result with what all of them say of the database. */
struct json *phase_result(const char *bench, const struct tuning_data *data);

/* Into a new state directory place->state, against wc and sort.  That and |daemon_state|, which a
 * daemon may lock, are left with the database imported. */
KILN_MUST_CHECK enum kiln_code phase_import(const struct way_place *place, const char *daemon_state,
                                            unsigned rounds, struct kiln_err *err);

struct phase_first { /* a process that knows nothing, to its first answer */
    const struct tuning_way *way;
    bool greeted; /* connected before, which is not measured */
};
struct phase_firsts {
    const struct phase_first *ways; /* borrowed */
    size_t way_count;
    unsigned processes, rounds; /* new ones at once, in each round */
};
KILN_MUST_CHECK enum kiln_code phase_first(const struct way_place *place,
                                           const struct phase_firsts *firsts, struct kiln_err *err);

enum phase_cpus {
    CPUS_ANY, /* wherever the scheduler puts everyone */
    CPUS_TWO, /* the processes on one, the servers on another */
    CPUS_ONE, /* all on the servers' */
};
const char *phase_cpus_name(enum phase_cpus cpus); /* "any", "two", "one" */

struct phase_setting {
    const struct tuning_way *ways[PHASE_WAYS_MAX + 1]; /* NULL-terminated */
    unsigned processes, rounds;                        /* the first round warms up */
    enum phase_cpus cpus;
    unsigned cpu; /* of the processes, unless CPUS_ANY; the servers are where they must be */
};
/* Look-ups of processes that have everything open. */
KILN_MUST_CHECK enum kiln_code phase_look_up(const struct way_place *place,
                                             const struct phase_setting *setting,
                                             struct kiln_err *err);
/* 1 000 problems in one call of libkiln; of |setting| its placement alone counts. */
KILN_MUST_CHECK enum kiln_code phase_batch(const struct way_place *place,
                                           const struct phase_setting *setting,
                                           struct kiln_err *err);
