/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Measures one problem: plans, fetches, loads, launches, times and checks it.
 *
 * Ownership  measurement_done releases |found| of a measurement; a bench borrows client and device
 * Threading  one thread; the reference starts its own threads
 */
#include "cli/fail.h"

#include <kiln/conv.h>

#include <stdbool.h>
#include <stdio.h>

struct bench {
    struct kiln_client *client;
    struct kiln_device *device;
    const char *toolchain;
    const struct kiln_conv_options *find; /* how to choose a solver; NULL to use kilnd's plan */
    int find_ms; /* time limit of find for each problem if no budget is given; 0: none */
    /* With KILN_FIND_SOON: how long to repeat a problem until its plan is tuned. */
    uint64_t improve_ms;
    FILE *progress;
};

/* Returns the options for a plan with |solver|.  If |solver| is empty, kilnd chooses. */
struct kiln_plan_options bench_plan_options(const struct bench *bench, const char *solver);

/* Times of the phases in seconds; 0 for phases that were not reached or not requested. */
struct phases {
    double find;
    double plan;
    double fetch; /* without planning */
    /* sum of the compile times of the kernels that were compiled; because kernels compile in
     * parallel, the sum may exceed |fetch| */
    double compile;
    double load;
    double first;
    double timed;  /* all launches for -t and -w */
    double steady; /* median time of the -i launches, by the device's clock */
    /* mean time of the -i launches, by the host's clock: from the first launch until all have
     * completed */
    double wall;
    double check; /* this program's own work: creating tensors, computing the reference */
};

#define MEASURE_OBJECTS_MAX 8

struct measured_object {
    char key[65];
    int tier;
    uint64_t size;
    double compile_s;
};

struct measurement {
    struct kiln_problem problem;
    bool transposed; /* -m trans exchanged x and y in |problem| */
    uint64_t seed;
    struct kiln_error err;
    char solver[64], toolchain[64];
    char config[1032];              /* "" if there is nothing to tune */
    struct kiln_conv_result *found; /* owned; NULL if neither find nor tune ran */
    /* Set if the plan was provisional: the first plan, how often a better one replaced it, and
     * whether it is tuned. */
    bool provisional, tuned;
    char first_solver[64], first_config[1032];
    unsigned improvements;
    uint64_t workspace;
    struct measured_object objects[MEASURE_OBJECTS_MAX];
    unsigned object_count;
    struct phases time;
    unsigned iterations;
    double flops;
    uint64_t bytes_read, bytes_written;
    bool checked;
    uint64_t wrong, elements;
    double largest_error;
};

/* Runs |problem| with the settings in |flags|.  Ignores the problem in |flags|.  Always fills
 * |ret_measurement|, whose |err| holds the result. */
void measure(const struct bench *bench, const struct kiln_problem *problem,
             const struct kiln_driver_line *flags, uint64_t seed,
             struct measurement *ret_measurement);
void measurement_done(struct measurement *measurement);
/* Returns the direction (KILN_FORWARD, ...) on the command line. -m trans changes the problem's
 * direction: forward becomes backward data, and the reverse. */
unsigned measure_asked_direction(const struct measurement *measurement);
