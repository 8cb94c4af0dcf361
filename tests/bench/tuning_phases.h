/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The phases of bench_tuning. Each prints its results.
 *
 * Role       bench_tuning.c prepares data and servers, and calls these functions one after another
 * Threading  they fork, so call them before any thread starts
 */
#include "tests/bench/tuning_way.h"

#define PHASE_ROUNDS_MAX 8u
#define PHASE_PROCESSES_MAX 8u
#define PHASE_WAYS_MAX 8u

/* A result with the members that describe the database. */
struct json *phase_result(const char *bench, const struct tuning_data *data);

/* Measures imports into a new state directory place->state, compared with wc and sort. Afterwards
 * place->state and |daemon_state| both have the database imported. */
KILN_MUST_CHECK enum kiln_code phase_import(const struct way_place *place, const char *daemon_state,
                                            unsigned rounds, struct kiln_err *err);

struct phase_first { /* a new process, up to its first answer */
    const struct tuning_way *way;
    bool connected; /* the process connects before the measurement */
};
struct phase_firsts {
    const struct phase_first *ways; /* borrowed */
    size_t way_count;
    unsigned processes, rounds; /* |processes| new processes start at once in each round */
};
KILN_MUST_CHECK enum kiln_code phase_first(const struct way_place *place,
                                           const struct phase_firsts *firsts, struct kiln_err *err);

enum phase_cpus {
    CPUS_ANY, /* the scheduler places all processes */
    CPUS_TWO, /* clients on one CPU, servers on another */
    CPUS_ONE, /* clients and servers on one CPU */
};
const char *phase_cpus_name(enum phase_cpus cpus); /* "any", "two", "one" */

struct phase_setting {
    const struct tuning_way *ways[PHASE_WAYS_MAX + 1]; /* NULL-terminated */
    unsigned processes, rounds;                        /* the first round warms up */
    enum phase_cpus cpus;
    unsigned cpu; /* of the clients, unless CPUS_ANY; the caller places the servers */
};
/* Look-ups by processes that have opened every way before. */
KILN_MUST_CHECK enum kiln_code phase_look_up(const struct way_place *place,
                                             const struct phase_setting *setting,
                                             struct kiln_err *err);
/* 1 000 problems in one call of libkiln. Uses only the placement of |setting|. */
KILN_MUST_CHECK enum kiln_code phase_batch(const struct way_place *place,
                                           const struct phase_setting *setting,
                                           struct kiln_err *err);
