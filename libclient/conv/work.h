/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One call of find or tune: what it was asked, the solvers that apply, and how far it is.
 *
 * Role       find.c fills it solver by solver, tune.c improves on that, and find.c records and
 *            hands out what came of it
 * Ownership  work_done releases all but what the caller gave
 * Threading  one thread
 */
#include "libclient/client.h"
#include "libclient/conv/bench.h"
#include "libclient/conv/result.h"

#include <kiln/solutions.h>
#include <kiln/tuning.h>

#define WORK_SOLVERS_MAX 16u
#define WORK_CONFIG_MAX 1032u

struct work_solver {
    struct kiln_solution solution; /* texts borrowed from the list */
    int state;                     /* KILN_CONV_... */
    struct timing timing;
    uint64_t checked;
    unsigned tried;
    char config[WORK_CONFIG_MAX];
    char reason[512];
    struct kiln_plan *plan; /* counted; NULL: none */
    bool is_measured;       /* in this call: to be recorded */
    bool is_tuned;          /* |config| is what a search found */
};

struct work {
    struct kiln_client *client; /* borrowed, as the device and what is in |options| */
    struct kiln_device *device;
    const struct kiln_problem *public_problem;
    struct problem problem;
    struct kiln_conv_options options; /* with defaults filled in */
    int timeout_ms;                   /* of a question to kilnd */
    uint64_t start_ns, end_ns;        /* UINT64_MAX: no end */
    struct kiln_solutions *list;      /* owned */
    struct work_solver solvers[WORK_SOLVERS_MAX];
    unsigned count;
    struct bench *bench;             /* owned; NULL until something is measured */
    struct kiln_err unchecked;       /* why results are compared with nothing; OK: they are */
    char toolchain[512];             /* identity, of the reference's plan */
    bool has_enough;                 /* the caller said so */
    struct kiln_conv_result *result; /* owned */
};

/* Checks and copies what was given, and asks which solvers apply. */
KILN_MUST_CHECK enum kiln_code work_init(struct work *work, const struct kiln_conv_options *options,
                                         struct kiln_err *err);
void work_done(struct work *work);
/* Times every solver with the best config that is known of it. */
KILN_MUST_CHECK enum kiln_code work_find(struct work *work, struct kiln_err *err);
/* Searches each tuning space that is worth it. */
KILN_MUST_CHECK enum kiln_code work_tune(struct work *work, struct kiln_err *err);

/* What plans are asked with. */
struct kiln_plan_options work_plan_options(const struct work *work, const char *solver,
                                           const char *config);
/* When a question that is asked now ends. */
uint64_t work_deadline(const struct work *work);
bool work_has_time(const struct work *work);
bool work_is_winograd(const struct kiln_solution *solution);
/* The fastest of the solvers that are timed and right; NULL: none. */
struct work_solver *work_fastest(struct work *work);
/* Tells the caller. */
void work_report(struct work *work, struct kiln_conv_progress *progress);
/* Another plan of |solver|; the old one goes. */
void work_take_plan(struct work_solver *solver, struct kiln_plan *plan);
/* A recording on this device with |measurement|, made with |plan|'s toolchain. */
struct kiln_recording work_recording(const struct work *work, const struct kiln_plan *plan,
                                     const struct kiln_measurement *measurement);
