/* SPDX-License-Identifier: MIT */
#ifndef KILN_CONV_H
#define KILN_CONV_H

/*
 * Find and tune: measuring on the device which solver is the fastest for a problem, and with which
 * perf config.  docs/find-and-tune.md says how it is measured and what is kept.
 *
 * Records    what was measured is recorded with kilnd (<kiln/tuning.h>); plans asked for from then
 *            on, by any process of the user, take the fastest and measure nothing.  Where that
 *            fails the result is returned all the same: kiln_conv_result_recorded
 * Checks     the result of whatever counts was compared with that of ConvDirectNaive.  A program
 *            that has kernels built in (docs/embedding.md), and not that solver's, times what it
 *            has, compares nothing, records nothing (kiln_conv_result_recorded says why) and
 *            searches nothing
 * Ownership  a result is released with kiln_conv_result_free; texts, and its plan, are borrowed and
 *            live as long
 * Threads    one call uses the calling thread and the device's queues; results are immutable
 */
#include <kiln/run.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* MIOPEN_FIND_MODE's numbers. */
enum {
    KILN_FIND_NORMAL = 1, /* every solver that applies is timed */
    KILN_FIND_FAST = 2,   /* what is recorded, else what the solvers' heuristic says: no timing */
    KILN_FIND_HYBRID = 3, /* what is recorded, else as normal */
};
/* MIOPEN_FIND_ENFORCE's numbers. */
enum {
    KILN_ENFORCE_NONE = 1,             /* tune searches where no perf config is recorded */
    KILN_ENFORCE_DB_UPDATE = 2,        /* tune searches also where one is */
    KILN_ENFORCE_SEARCH = 3,           /* find tunes as well */
    KILN_ENFORCE_SEARCH_DB_UPDATE = 4, /* both */
    KILN_ENFORCE_DB_CLEAN = 5, /* the user's perf configs of the problem are removed, nobody's are
                                  used, and nothing is searched */
};

struct kiln_conv_progress {
    size_t size;                /* of what libkiln fills */
    const char *solver;         /* at work on it; "": on all of them */
    unsigned done;              /* solvers (find) or perf configs (tune) so far */
    unsigned total;             /* of these; 0: not known */
    unsigned failed;            /* of |done|: not compiled, not run, or wrong */
    double best_ms;             /* of |solver| so far, or of all; 0: none yet */
    double spent_ms, budget_ms; /* of the time for |solver|; budget 0: no limit */
};
/* On the calling thread.  Not 0: enough; what was measured so far counts. */
typedef int kiln_conv_report_fn(void *context, const struct kiln_conv_progress *progress);

struct kiln_conv_options {
    size_t size; /* sizeof(struct kiln_conv_options) */
    /* The problem's tensors on the device: all three, or none of them, then libkiln makes its own
     * with random data.  The one that the problem computes is overwritten. */
    struct kiln_memory *x, *w, *y;
    struct kiln_stream *stream; /* to launch on; NULL: the device's own */
    int mode;                   /* of find; KILN_FIND_NORMAL, ...; 0: normal */
    int enforce;                /* KILN_ENFORCE_NONE, ...; 0: none */
    int budget_ms;              /* for the whole call; 0: find no limit, tune 60 000 */
    const char *solver;         /* only this one; NULL: all that apply */
    const char *toolchain;      /* NULL: kilnd chooses */
    int no_record;              /* 1: the result is only returned */
    int tier;                   /* of the records; 0: KILN_TUNING_USER */
    int share;                  /* 1: tune together with other processes that ask for it */
    const char *journal; /* directory that keeps tune's timings, so that one that was cut off is
                            taken up again; NULL: $XDG_STATE_HOME/kiln/tune, else
                            ~/.local/state/kiln/tune; "": none */
    kiln_conv_report_fn *reported; /* may be NULL */
    void *context;                 /* of |reported| */
};

enum {
    KILN_CONV_TIMED,        /* and right, where |checked| says so */
    KILN_CONV_RECORDED,     /* its time is the database's */
    KILN_CONV_CUT_SHORT,    /* hopeless after one run, whose time it is; not checked */
    KILN_CONV_UNTIMED,      /* not asked for, or no time was left */
    KILN_CONV_WRONG,        /* its result is not the reference's */
    KILN_CONV_NOT_COMPILED, /* or no plan could be had */
    KILN_CONV_NOT_RUN,      /* not loaded, not launched, or failed while it ran */
};

struct kiln_conv_entry {
    size_t size; /* in: sizeof(struct kiln_conv_entry) */
    const char *solver;
    const char *algorithm; /* MIOpen's */
    const char *config;    /* "": nothing to tune */
    int state;             /* KILN_CONV_TIMED, ... */
    double median_ms;      /* of one call, by the device's clock; 0: not known */
    double spread_ms;      /* half the width of the middle half of the samples */
    unsigned samples;      /* that these are of, outliers left out */
    uint64_t workspace;    /* bytes */
    uint64_t checked;      /* elements that were compared; 0: none */
    const char *reason;    /* why it has no time; "" */
    unsigned tried;        /* of a solver's tuning space, in this call and those it takes up */
};

struct kiln_conv_result;

/* Which solver is the fastest, each with the best perf config that is known.  |timeout_ms| is for
 * each question to kilnd, compiling included.  KILN_E_OK also where some solvers failed, or where
 * nothing could be recorded; KILN_E_UNSUPPORTED where none applies or the reference cannot be run;
 * KILN_E_NOT_FOUND where the program has no kernels for the problem built in; KILN_E_GPU_FAULT when
 * the device is lost. */
int kiln_conv_find(struct kiln_client *client, struct kiln_device *device,
                   const struct kiln_problem *problem, const struct kiln_conv_options *options,
                   int timeout_ms, struct kiln_conv_result **ret_result, struct kiln_error *err);
/* What kiln_conv_find does, and a search for each solver's best perf config. */
int kiln_conv_tune(struct kiln_client *client, struct kiln_device *device,
                   const struct kiln_problem *problem, const struct kiln_conv_options *options,
                   int timeout_ms, struct kiln_conv_result **ret_result, struct kiln_error *err);

void kiln_conv_result_free(struct kiln_conv_result *result); /* accepts NULL */
/* The solvers, in order of speed; those without a time last. */
unsigned kiln_conv_result_count(const struct kiln_conv_result *result);
int kiln_conv_result_entry(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err);
/* Every perf config that tune tried, solver by solver in the order it tried them. */
unsigned kiln_conv_result_trial_count(const struct kiln_conv_result *result);
int kiln_conv_result_trial(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err);
/* Whether what was measured was recorded.  KILN_E_OK: all of it, or nothing was to be (no_record,
 * nothing measured).  Else what kept kilnd from it, in |err| too: the first record that it refused,
 * after which no more was tried, or (share) its refusal to take a report, whose best the others do
 * not know then.  The result is as good, but other processes may measure again. */
int kiln_conv_result_recorded(const struct kiln_conv_result *result, struct kiln_error *err);
/* The plan of the fastest, ready to run.  NULL: none has a time. */
struct kiln_plan *kiln_conv_result_plan(const struct kiln_conv_result *result);
/* "TIMED"; "?" for an unknown state.  Static storage. */
const char *kiln_conv_state_name(int state);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
