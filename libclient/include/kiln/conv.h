/* SPDX-License-Identifier: MIT */
#ifndef KILN_CONV_H
#define KILN_CONV_H

/*
 * Find and tune: measure on the device which solver is the fastest for a problem, and which perf
 * config makes it fastest. docs/find-and-tune.md describes how kiln measures and what it records.
 *
 * Records    Measurements are recorded with kilnd (<kiln/tuning.h>).  From then on, plans for any
 *            process of the user use the fastest solver without measuring again.  If recording
 *            fails, the call still returns its result, and kiln_conv_result_recorded says why.
 * Checks     A measurement only counts if the result was correct: equal to the result of the
 *            reference solver, ConvDirectNaive.  A program with built-in kernels
 *            (docs/embedding.md) may lack that solver.  In that case, find times the kernels that
 *            the program has, but does not compare results, record or search;
 *            kiln_conv_result_recorded gives the reason.
 * Ownership  A result is released with kiln_conv_result_free.  The texts and the plan of a result
 *            are borrowed and stay valid until the result is released.
 * Threads    One call uses the calling thread and the device's queues.  Results are immutable,
 * except that kiln_conv_plan_refresh replaces the plan: only one thread at a time may use a result
 * that is being refreshed.
 */
#include <kiln/run.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The values are those of MIOPEN_FIND_MODE. */
enum {
    KILN_FIND_NORMAL = 1, /* time every solver that applies */
    /* Use recorded results.  If no result is recorded, use the solver that the heuristic chooses.
     * Time nothing. */
    KILN_FIND_FAST = 2,
    KILN_FIND_HYBRID = 3, /* use recorded results; if there are none, act like KILN_FIND_NORMAL */
    /* Not a value of MIOPEN_FIND_MODE.  Return a provisional plan and time nothing: a plan by the
     * problem's records, else by the records of a similar problem, else by the heuristic.  A thread
     * of the client then looks for a better plan (see kiln_conv_plan_refresh). */
    KILN_FIND_SOON = 100,
};
/* The values are those of MIOPEN_FIND_ENFORCE. */
enum {
    KILN_ENFORCE_NONE = 1,             /* tune searches only if no perf config is recorded */
    KILN_ENFORCE_DB_UPDATE = 2,        /* tune searches even if a perf config is recorded */
    KILN_ENFORCE_SEARCH = 3,           /* find also tunes */
    KILN_ENFORCE_SEARCH_DB_UPDATE = 4, /* find also tunes, even if a perf config is recorded */
    /* Removes the user's perf configs for the problem, ignores other users' perf configs, and does
     * not search. */
    KILN_ENFORCE_DB_CLEAN = 5,
};

struct kiln_conv_progress {
    size_t size;
    const char *solver; /* the solver in progress; "" means all solvers */
    unsigned done;      /* number of solvers (find) or perf configs (tune) that are done */
    unsigned total;     /* 0 if not known */
    /* How many of |done| were not compiled, failed to run, or gave a wrong result. */
    unsigned failed;
    double best_ms;             /* best time of |solver| so far, or of all solvers; 0: none yet */
    double spent_ms, budget_ms; /* time spent on |solver|, and its limit; budget 0: no limit */
};
/* Called on the calling thread.  If this function returns a value other than 0, find or tune stops,
 * and keeps the measurements made so far. */
typedef int kiln_conv_report_fn(void *context, const struct kiln_conv_progress *progress);

struct kiln_conv_options {
    size_t size;
    struct kiln_device *device; /* borrowed; the device to measure on; required */
    /* Limit for each request to kilnd, including compilation; 0: the client's default. */
    int timeout_ms;
    /* The problem's tensors on the device: set all three, or none of them.  If none is set, libkiln
     * allocates tensors with random data.  The call overwrites the tensor that the problem
     * computes. */
    struct kiln_memory *x, *w, *y;
    struct kiln_stream *stream; /* the stream to launch on; NULL: the device's own */
    int mode;                   /* for find: KILN_FIND_NORMAL, ...; 0: KILN_FIND_NORMAL */
    int enforce;                /* KILN_ENFORCE_NONE, ...; 0: KILN_ENFORCE_NONE */
    int budget_ms;      /* limit for the whole call; 0 means no limit for find, 60 000 for tune */
    const char *solver; /* only this solver; NULL: all that apply */
    const char *toolchain; /* NULL: kilnd chooses */
    int no_record;         /* 1: return the result without recording it */
    int tier;              /* tier of the records (<kiln/tuning.h>); 0: KILN_TUNING_USER */
    /* The directory for tune's journal of timings.  From the journal, a later call resumes an
     * interrupted call.  NULL means $XDG_STATE_HOME/kiln/tune, else ~/.local/state/kiln/tune; ""
     * means no journal. */
    const char *journal;
    kiln_conv_report_fn *reported; /* may be NULL */
    void *context;
    /* For KILN_FIND_SOON.  1: the plan is final, and nothing is measured.  The variable
     * KILN_PLANS=frozen does the same for the whole process. */
    int frozen;
};

enum {
    KILN_CONV_TIMED,    /* timed; the result was correct if |checked| is not 0 */
    KILN_CONV_RECORDED, /* the time comes from the database */
    /* Stopped after one run that was far too slow.  The time is that of this run, whose result was
     * not checked. */
    KILN_CONV_CUT_SHORT,
    KILN_CONV_UNTIMED,      /* no timing was requested, or no time was left */
    KILN_CONV_WRONG,        /* the result differs from the reference */
    KILN_CONV_NOT_COMPILED, /* the compilation failed, or there was no plan */
    KILN_CONV_NOT_RUN,      /* failed while it was loaded, launched or run */
};

struct kiln_conv_entry {
    size_t size;
    const char *solver;
    const char *algorithm; /* MIOpen's name for the solver's algorithm */
    const char *config;    /* "" if there is nothing to tune */
    int state;             /* KILN_CONV_TIMED, ... */
    double median_ms;      /* time of one execution, measured by the device's clock; 0: not known */
    double spread_ms;      /* half the interquartile range of the samples */
    unsigned samples;      /* number of samples, without outliers */
    uint64_t workspace;    /* bytes */
    uint64_t checked;      /* number of elements compared; 0: not compared */
    const char *reason;    /* why there is no time; "" if there is one */
    /* Number of perf configs that were tried, by this call and by the interrupted calls that it
     * resumes. */
    unsigned tried;
};

struct kiln_conv_result;

/* Finds the fastest solver.  Times each solver with its best known perf config.  Returns KILN_E_OK
 * even if some solvers failed, or if nothing could be recorded.  Returns KILN_E_UNSUPPORTED if no
 * solver applies, or if the reference solver cannot be run; KILN_E_NOT_FOUND if the program has no
 * built-in kernels for the problem; KILN_E_GPU_FAULT if the device is lost; KILN_E_NO_MEMORY if the
 * device has no memory for the plan's kernels.  If nothing can be compiled, but generic kernels for
 * the problem are stored, the plan's source is KILN_PLAN_GENERIC, nothing is measured, and
 * kiln_conv_result_recorded() says why.  The device has loaded the plan: if its driver refused
 * kernels of a package, kilnd has compiled them. */
int kiln_conv_find(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err);
/* Like kiln_conv_find, but also searches for each solver's best perf config. */
int kiln_conv_tune(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err);

void kiln_conv_result_free(struct kiln_conv_result *result); /* accepts NULL */
/* Returns the number of solvers.  Solvers are sorted by time, fastest first; solvers without a time
 * come last. */
unsigned kiln_conv_result_count(const struct kiln_conv_result *result);
/* Gets a solver's result.  Returns KILN_E_INVALID if |index| is too large. */
int kiln_conv_result_entry(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err);
/* Returns the number of perf configs that tune tried (trials).  Trials are grouped by solver, in
 * the order in which they were made. */
unsigned kiln_conv_result_trial_count(const struct kiln_conv_result *result);
/* Gets the result of a trial.  Returns KILN_E_INVALID if |index| is too large. */
int kiln_conv_result_trial(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err);
/* Returns whether the measurements were recorded.  KILN_E_OK means that all of them were, or that
 * there was nothing to record (no_record was set, or nothing was measured).  Any other code, which
 * is also in |err|, says why not.  kilnd rejected a record, and libkiln then sent no more records.
 * Or several processes shared the search, and kilnd rejected this process's report, so the others
 * do not know its best result, and may measure again.  Or nothing was measured, and the plan is not
 * the expected one: it is generic, or the driver refused kernels of a package.  In all cases, the
 * result is valid. */
int kiln_conv_result_recorded(const struct kiln_conv_result *result, struct kiln_error *err);
/* Returns the plan of the fastest solver, or NULL if no solver has a time. */
struct kiln_plan *kiln_conv_result_plan(const struct kiln_conv_result *result);

/* ---- better plans (KILN_FIND_SOON) ---- */

/*
 * After a find with KILN_FIND_SOON, a thread of the client measures on |device|, on a stream of its
 * own: first every solver of each problem, then the perf configs of each problem (kiln_conv_tune,
 * within |budget_ms|, or 2 s if it is 0).  The thread allocates its own tensors, so |x|, |w|, |y|,
 * |stream| and |reported| are not used.  It works for KILN_SOON_BUDGET milliseconds (default 50) of
 * each second.  With 0, nothing is measured.  A plan is replaced only by one that was correct, and
 * faster in the same measurement, or by the recorded times if another process of the user measured
 * it.  The thread learns of such records by a counter in memory that it shares with kilnd, not by
 * requests.
 *
 * Between two steps, a job compares generations, and refreshes its results if they differ:
 *
 *     if (kiln_conv_generation(client) != kiln_conv_result_generation(result))
 *         kiln_conv_plan_refresh(client, result, &refreshed, &err);
 *
 * The thread ends in kiln_client_close, which waits for the measurement in progress.
 */

/* Returns a number that grows when a better plan of any of the client's problems is ready, and when
 * all measurements of a problem are done.  Reads memory only: sends no request and takes no lock.
 * 0 before the first find with KILN_FIND_SOON. */
uint64_t kiln_conv_generation(const struct kiln_client *client);
/* Returns the client's generation when the result's plan was obtained or refreshed; 0 if the plan
 * is final. */
uint64_t kiln_conv_result_generation(const struct kiln_conv_result *result);

struct kiln_conv_refreshed {
    size_t size;
    int is_new; /* 1: the result has another plan than before */
    /* 1: the thread has no further measurements to make for this problem */
    int is_tuned;
};
/* Takes the best plan so far into |result|, which releases its old plan.  The kernels of the new
 * plan are in memory, so the call neither sends a request nor waits.  The plan may need another
 * workspace (kiln_plan_workspace).  The entries of the result stay as they were.  |client| must be
 * the one that found the result.  |ret_refreshed| may be NULL.  Does nothing if the plan is final.
 */
int kiln_conv_plan_refresh(struct kiln_client *client, struct kiln_conv_result *result,
                           struct kiln_conv_refreshed *ret_refreshed, struct kiln_error *err);

/* Returns the state's name, such as "TIMED", or "?" for an unknown state.  Static storage. */
const char *kiln_conv_state_name(int state);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
