/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Measures one problem: plans, fetches, loads, launches, times and checks it.
 *
 * Ownership  a measurement is a plain value except for |found|, which measurement_done releases;
 *            the bench borrows client and device
 * Threading  one thread; the reference starts threads of its own
 */
#include "cli/fail.h"

#include <kiln/conv.h>

#include <stdbool.h>
#include <stdio.h>

struct bench {
    struct kiln_client *client;
    struct kiln_device *device;
    const char *toolchain;                /* NULL if the daemon chooses */
    const struct kiln_conv_options *find; /* how to choose a solver; NULL to use kilnd's plan */
    int find_ms;    /* time limit of find for each problem if no budget is given; 0 means none */
    FILE *progress; /* where find and tune show their progress; NULL if it is not shown */
};

/* The plan options for the bench's device.  An empty |solver| leaves the choice to kilnd. */
struct kiln_plan_options bench_plan_options(const struct bench *bench, const char *solver);

/* The time of each phase in seconds; 0 for phases that were not reached or not requested. */
struct phases {
    double find;    /* find or tune, including compilation */
    double plan;    /* planning by the daemon */
    double fetch;   /* fetching the code objects, without planning */
    double compile; /* part of |fetch|: the recorded time of compilation */
    double load;    /* loading the objects into the device's runtime */
    double first;   /* first launch, until it completes */
    double timed;   /* all launches for -t and -w */
    double steady;  /* median time of the -i launches, by the device's clock */
    double wall;    /* mean time of the -i launches, with one wait after the last launch */
    double check;   /* this program's own work: creating tensors, computing the reference */
};

#define MEASURE_OBJECTS_MAX 8 /* maximum number of objects of a plan */

struct measured_object {
    char key[65];
    int tier;
    uint64_t size; /* bytes */
    double compile_s;
};

struct measurement {
    struct kiln_problem problem;
    bool transposed; /* -m trans was given, so x and y are exchanged in |problem| */
    uint64_t seed;
    struct kiln_error err; /* KILN_E_OK if everything that was requested was done */
    char solver[64], toolchain[64];
    char config[1032];              /* the solver's perf config; "" if there is nothing to tune */
    struct kiln_conv_result *found; /* owned; NULL if neither find nor tune ran */
    uint64_t workspace;
    struct measured_object objects[MEASURE_OBJECTS_MAX];
    unsigned object_count;
    struct phases time;
    unsigned iterations; /* number of launches; |steady| is the median of their times */
    double flops;        /* number of operations: two for each multiply-add */
    uint64_t bytes_read, bytes_written;
    bool checked; /* the result was compared */
    uint64_t wrong, elements;
    double largest_error;
};

/* Runs |problem| with the settings in |flags|; ignores the problem inside |flags|.
 * Always fills |ret_measurement|; its |err| holds the result. */
void measure(const struct bench *bench, const struct kiln_problem *problem,
             const struct kiln_driver_line *flags, uint64_t seed,
             struct measurement *ret_measurement);
void measurement_done(struct measurement *measurement);
/* Returns the direction (KILN_FORWARD, ...) that the command line requested.  It differs from the
 * problem's direction if -m trans exchanged x and y: forward became backward data, or the
 * reverse. */
unsigned measure_asked_direction(const struct measurement *measurement);
