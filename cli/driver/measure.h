/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One problem: planned, fetched, loaded, launched, timed and checked.
 *
 * Ownership  a measurement is a plain value but for |found| (measurement_done); the bench borrows
 *            client and device
 * Threading  one thread; the reference starts its own
 */
#include "cli/fail.h"

#include <kiln/conv.h>

#include <stdbool.h>
#include <stdio.h>

struct bench {
    struct kiln_client *client;
    struct kiln_device *device;
    const char *toolchain;                /* NULL: the daemon chooses */
    const struct kiln_conv_options *find; /* how to choose a solver; NULL: as kilnd plans */
    FILE *progress;                       /* of find and tune; NULL: not shown */
};

/* What plans are asked with: for the bench's device; |solver| "" leaves the choice. */
struct kiln_plan_options bench_plan_options(const struct bench *bench, const char *solver);

/* Seconds; 0 for what was not reached or not asked for. */
struct phases {
    double find;    /* find or tune, with all that they compile */
    double plan;    /* the daemon's planning */
    double fetch;   /* until the code objects were here, planning aside */
    double compile; /* of that, the compilers' time as recorded */
    double load;    /* into the device's runtime */
    double first;   /* first launch, waited for */
    double timed;   /* all launches for -t and -w */
    double steady;  /* median of -i launches, by the device's clock */
    double wall;    /* mean of -i launches waited for together */
    double check;   /* tensors and reference: this program's own work */
};

#define MEASURE_OBJECTS_MAX 8 /* as many as a plan may have */

struct measured_object {
    char key[65];
    int tier;
    uint64_t size; /* bytes */
    double compile_s;
};

struct measurement {
    struct kiln_problem problem;
    bool transposed; /* asked with -m trans: |problem| has x and y exchanged */
    uint64_t seed;
    struct kiln_error err; /* code KILN_E_OK: all that was asked for was done */
    char solver[64], toolchain[64];
    char config[1032];              /* of the solver; "": nothing to tune */
    struct kiln_conv_result *found; /* owned; NULL: neither find nor tune ran */
    uint64_t workspace;
    struct measured_object objects[MEASURE_OBJECTS_MAX];
    unsigned object_count;
    struct phases time;
    unsigned iterations; /* that |steady| is the median of */
    double flops;        /* multiply-adds times two */
    uint64_t bytes_read, bytes_written;
    bool checked; /* the result was compared */
    uint64_t wrong, elements;
    double largest_error;
};

/* Runs |problem| as |flags| say (their problems are not looked at).
 * Fills |ret_measurement| whatever happens; its |err| says what did. */
void measure(const struct bench *bench, const struct kiln_problem *problem,
             const struct kiln_driver_line *flags, uint64_t seed,
             struct measurement *ret_measurement);
void measurement_done(struct measurement *measurement);
/* KILN_FORWARD, ...: as the command line had it; forward and data change places with x and y. */
unsigned measure_asked_direction(const struct measurement *measurement);
