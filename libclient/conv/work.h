/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One call of find or tune: its arguments, the solvers that apply, and its progress.
 *
 * Role       find.c fills in the entry of each solver, tune.c improves the entries, and find.c then
 *            records the measurements and returns the result.  soon_thread.c runs find and tune
 *            beside the job, with |pace| and |incumbent|
 * Ownership  work_done releases everything except what the caller passed
 * Threading  one thread
 */
#include "libclient/client.h"
#include "libclient/conv/bench.h"
#include "libclient/conv/journal.h"
#include "libclient/conv/result.h"
#include "libclient/plans/plan_window.h"

#include <kiln/solutions.h>
#include <kiln/tuning.h>

#define WORK_SOLVERS_MAX 16u
#define WORK_CONFIG_MAX 1032u

struct work_solver {
    struct kiln_solution solution; /* its texts are borrowed from the list */
    int state;
    struct timing timing;
    uint64_t checked;
    unsigned tried;
    char config[WORK_CONFIG_MAX];
    char reason[512];
    struct kiln_plan *plan;
    bool is_measured; /* this call measured the solver, so its time must be recorded */
    bool is_tuned;
    bool lacked_memory; /* it may run when the job uses less memory */
};

struct work {
    struct kiln_client *client; /* borrowed, like |device| and the pointers in |options| */
    struct kiln_device *device;
    const struct kiln_problem *public_problem;
    struct problem problem;
    struct kiln_conv_options options; /* with defaults filled in */
    /* Times of work_now.  |end_ns| is UINT64_MAX if there is no time budget. */
    uint64_t start_ns, end_ns;
    struct kiln_solutions *list;
    struct work_solver solvers[WORK_SOLVERS_MAX];
    unsigned count;
    struct bench *bench;       /* NULL until something is measured */
    struct kiln_err unchecked; /* why results are not checked; KILN_OK if results are checked */
    char toolchain[512];
    bool has_enough;
    struct kiln_conv_result *result;
    /* Set if the work runs beside the job, which uses the plan |incumbent|; borrowed. */
    struct pace *pace;
    struct kiln_plan *incumbent;
    /* The job takes its plans from the records, which it shares with other processes
     * (libclient/conv/follow.h).  What is recorded needs no measurement by this process. */
    bool follows;
    bool leaves_plan; /* the result has no plan, because the job takes it from the records */
};

/* Runs find or tune.  |given| has the client, the problem, and |pace| and |incumbent|. */
KILN_MUST_CHECK enum kiln_code work_run(const struct work *given,
                                        const struct kiln_conv_options *options, bool is_tune,
                                        struct kiln_conv_result **ret_result, struct kiln_err *err);
/* Checks and copies the arguments.  Sends no request. */
KILN_MUST_CHECK enum kiln_code work_begin(struct work *work,
                                          const struct kiln_conv_options *options,
                                          struct kiln_err *err);

/* Asks kilnd which solvers apply. */
KILN_MUST_CHECK enum kiln_code work_list(struct work *work, struct kiln_err *err);
void work_done(struct work *work);
/* Returns whether a solver that may become the fastest, according to the records, was never tuned.
 * Without records, returns true. */
bool work_needs_tune(const struct work *work);
KILN_MUST_CHECK enum kiln_code work_tune(struct work *work, struct kiln_err *err);

struct kiln_plan_options work_plan_options(const struct work *work, const char *solver,
                                           const char *config);
/* Returns the monotonic time.  Beside a job, budgets count neither rests nor waits for kernels,
 * which kilnd compiles after those that jobs wait for. */
uint64_t work_now(const struct work *work);
/* Returns the monotonic time at which work_now returns |ns| if there is no rest until then. */
uint64_t work_real_ns(const struct work *work, uint64_t ns);
uint64_t work_deadline(const struct work *work);
bool work_has_time(const struct work *work);
/* Like plan_window_next.  Also returns KILN_TIMED_OUT soon after |pace| was stopped. */
KILN_MUST_CHECK enum kiln_code work_next_plan(const struct work *work, struct plan_window *window,
                                              uint64_t deadline_ns, struct planned *ret_planned,
                                              struct failure *failure);
/* Notes in the journal that |config| begins to run.  Beside a job, runs it once, and notes that it
 * ran: a trial with rests takes long, and the job may end meanwhile. */
KILN_MUST_CHECK enum kiln_code work_first_run(const struct work *work, struct journal *journal,
                                              const char *config, struct subject *subject,
                                              struct kiln_err *err);
/* Opens the solver's journal.  |ret_journal| becomes NULL if no journal is to be used. */
KILN_MUST_CHECK enum kiln_code work_open_journal(const struct work *work, const char *solver,
                                                 struct journal **ret_journal,
                                                 struct kiln_err *err);
bool work_is_winograd(const struct kiln_solution *solution);
/* Returns the fastest solver that has a time and a correct result, or NULL. */
struct work_solver *work_fastest(struct work *work);
void work_report(struct work *work, struct kiln_conv_progress *progress);
void work_take_plan(struct work_solver *solver, struct kiln_plan *plan);
/* Gives the result a plan that the device loads (libclient/conv/loadable.h). */
KILN_MUST_CHECK enum kiln_code work_get_plan(struct work *work,
                                             const struct kiln_plan_options *options,
                                             struct kiln_err *err);
/* Gives the result a plan of generic kernels, if |why| says that no other plan is possible, and the
 * kernels are stored.  Returns whether it did. */
bool work_get_generic(struct work *work, enum kiln_code why);
/* Adds the result's plan, which was not measured, to the result's solvers. */
KILN_MUST_CHECK enum kiln_code work_add_plan(struct work *work, struct kiln_err *err);
/* Returns a recording of |measurement|, which was made on this device with |plan|'s toolchain. */
struct kiln_recording work_recording(const struct work *work, const struct kiln_plan *plan,
                                     const struct kiln_measurement *measurement);
