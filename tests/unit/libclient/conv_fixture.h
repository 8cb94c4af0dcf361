/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs find and tune with a fake daemon and a fake device. The fake daemon offers a list of fake
 * solvers, whose kernels a made_device runs. The daemon's thread writes the counts, so tests may
 * read them only between calls. Each call of find or tune frees the previous result. */
#include "tests/support/test.h"
#include "tests/unit/libclient/conv_device.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <kiln/conv.h>
#include <stdatomic.h>

#define CONV_PUTS_MAX 16u
/* A limit with which a tune ends when all configs were tried, however slow the host is. */
#define CONV_WHOLE_TUNE_MS 600000
#define CONV_SPACE 16u /* number of configs of a tunable solver; from "0,1" to "15,1" */

struct conv_solver {
    const char *name;
    const char *kernel; /* NULL if the solver does not compile */
    double find_ms;
    const char *best;
    double best_ms;
    /* whether the solver is tunable. |kernel| is then the kernel of config "0,1". The fastest
     * config is "11,1". */
    bool has_space;
};

struct conv_put {
    uint8_t kind;
    char solver[32], params[16], toolchain[32], driver[32], uuid[32], device[32];
    uint32_t samples, clock_mhz;
    double median_ms;
};

struct conv_fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct made_device *device;
    struct kiln_problem problem;
    struct kiln_conv_options options;
    struct kiln_conv_result *result;
    struct kiln_error err;
    _Atomic(const struct conv_solver *) solvers;
    unsigned solver_count;
    const struct conv_solver *generic;  /* solver of plans that may be generic; NULL: none */
    const struct conv_solver *packaged; /* the solvers with the kernels of packages; NULL: none */
    bool is_older;                      /* kilnd knows PLAN_GENERIC, but not PLAN_NO_PACKAGES */
    unsigned space; /* number of configs of a tunable solver; CONV_SPACE unless the test sets it */
    const char *wrong_config, *fatal_config, *uncompiled_config;
    const char *busy;          /* solver or config for which kilnd answers BUSY */
    const char *greedy_config; /* a config whose workspace is larger than the device's memory */
    const char *near_config;   /* config of a plan by the records of a similar problem */
    const char *not_built_in;  /* solvers without built-in kernels, such as "A B" */
    const char *silent;        /* solver for which kilnd never answers */
    bool silent_plans, all_taken, loses_lease;
    /* whether another process already tunes the first of the two shares of the configs */
    bool has_company;
    /* whether another process reports the second share before the client reports the first one */
    bool is_last;
    bool refuses_puts, refuses_reports; /* whether kilnd rejects puts and reports */

    struct conv_put puts[CONV_PUTS_MAX];
    unsigned put_count, puts_asked, generic_plans, packaged_plans, config_requests, removals,
        reported, leases, reports;
    unsigned enough_after;
    atomic_bool silent_solutions;
    atomic_uint unanswered;         /* requests that kilnd did not answer */
    atomic_bool is_found_elsewhere; /* another process has the right to find the problem */
    atomic_uint find_leases;        /* requests for this right */
    atomic_uint plans, solutions_asked, watches_asked;
    /* the file of a counter that conv_offer_counter made; 0: kilnd offers none */
    int counter_file;
    _Atomic uint64_t *counter;
};

/* solvers of all kinds, none of which is tunable */
extern const struct conv_solver conv_several[8];
extern const struct conv_solver conv_tunable[2]; /* only "ConvTuned" is tunable */
#define CONV_USE(f, list) \
    (atomic_store(&(f)->solvers, (list)), (f)->solver_count = sizeof(list) / sizeof((list)[0]))

/* Like CONV_USE while kilnd serves requests. The list must be as long as the one before. */
#define CONV_SWITCH(f, list) atomic_store(&(f)->solvers, (list))

/* When the test ends, it fails if an object is left on the device. */
void conv_open(struct conv_fixture *f);
SET_UP_OF(conv_set_up, struct conv_fixture) { conv_open(f); }
FIXTURE_OF(conv, struct conv_fixture, conv_set_up, NULL);

/* Lets kilnd offer a counter of changed records. A second call offers another one. */
void conv_offer_counter(struct conv_fixture *f, uint64_t first);
/* Answers a request. Called by the fake daemon, or by a test's own handler. */
void conv_answer(struct fake_request *rq);
int conv_find(struct conv_fixture *f);
int conv_tune(struct conv_fixture *f);
struct kiln_conv_entry conv_entry(const struct conv_fixture *f, const char *solver);
struct kiln_conv_entry conv_at(const struct conv_fixture *f, unsigned index);
unsigned conv_trials_in(const struct conv_fixture *f, int state);
const struct conv_put *conv_put_of(const struct conv_fixture *f, uint8_t kind, const char *solver);
