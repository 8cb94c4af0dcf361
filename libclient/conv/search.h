/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The search for a solver's best perf config, by trials.
 *
 * Role       Decides which configs to try, how long to time each and which to drop. struct
 *            search_ops hides compilers and devices, so that tests can use a fake
 *
 *   try      many configs are timed briefly, and those far slower than the best are cut short
 *   halve    the fastest sixteen are timed again, then the faster half of them, for twice as long;
 *            and so on until two are left.  After each round, the fastest config is checked, and
 *            dropped if its result is wrong
 *   refine   the neighbours of the best along each axis are tried, until none of them is better
 *
 * Ownership  a search owns its trials and their texts; the implementation of the ops owns what a
 *            trial has compiled and loaded
 * Threading  one thread
 */
#include "common/base/bytes.h"
#include "common/base/hash_table.h"
#include "libclient/conv/timing.h"

#include <kiln/conv.h>

#define SEARCH_AXES_MAX 16u

enum trial_place { TRIAL_UNTRIED, TRIAL_REQUESTED, TRIAL_HELD, TRIAL_DONE };

struct search_trial {
    const char *config; /* owned by the search's table of configs */
    /* KILN_CONV_TIMED, ...; KILN_CONV_UNTIMED until the trial has a result */
    int state;
    /* TRIAL_HELD: |held| is loaded; TRIAL_DONE: the trial has a result, and |held| is not used */
    enum trial_place place;
    struct timing timing;
    uint64_t checked;
    char *reason;
    void *held;           /* opaque; belongs to the implementation of the ops */
    unsigned value_count; /* 0 if |config| does not have the form "1,2,3" */
    uint16_t values[SEARCH_AXES_MAX];
};

struct search;

/* a requested trial that was compiled and loaded, or whose compilation or loading failed */
struct search_arrival {
    size_t trial;
    enum kiln_code code; /* KILN_COMPILE_FAILED if the compiler failed */
    struct kiln_err why;
};

struct search_ops {
    uint64_t (*now_ns)(void *context);
    bool (*is_ready)(void *context);
    KILN_MUST_CHECK enum kiln_code (*ask)(void *context, size_t trial, struct kiln_err *err);
    /* Returns KILN_TIMED_OUT if no requested trial came by the deadline. */
    KILN_MUST_CHECK enum kiln_code (*next)(void *context, uint64_t deadline_ns,
                                           struct search_arrival *ret_next, struct kiln_err *err);
    /* Abandons all trials that were requested but not received yet. */
    void (*clear)(void *context);
    KILN_MUST_CHECK enum kiln_code (*time)(void *context, size_t trial,
                                           const struct timing_limits *limits,
                                           struct timing *ret_timing, struct kiln_err *err);
    /* Returns KILN_CORRUPT if the trial's result is wrong. */
    KILN_MUST_CHECK enum kiln_code (*check)(void *context, size_t trial, uint64_t *ret_checked,
                                            struct kiln_err *err);
    bool (*is_alive)(void *context); /* whether the device still works after a failure */
    void (*drop)(void *context, size_t trial);
    /* Called when a trial gets a result or its result changes.  Returns true to stop the search. */
    bool (*reported)(void *context, const struct search_trial *trial);
};

struct search {
    const struct search_ops *ops;
    void *context;
    /* Until this time, the search waits for the first trial, even if the time budget is used up. */
    uint64_t give_up_ns;

    struct search_trial *trials;
    size_t count, capacity;
    struct hash_table configs;
    /* Index of the fastest trial with a correct result, or SIZE_MAX. */
    size_t best;
    /* While no trial is the best, trials far slower than this are cut short; 0: none are. */
    double bar_ms;
    size_t open;
    unsigned tried, failed;
    bool has_enough;
};

void search_init(struct search *search, const struct search_ops *ops, void *context);
void search_done(struct search *search);

/* Adds a trial unless |config| has one already. */
KILN_MUST_CHECK enum kiln_code search_add(struct search *search, const char *config,
                                          size_t *ret_index, struct kiln_err *err);
/* Returns SIZE_MAX if the config has no trial. */
size_t search_find(const struct search *search, const char *config);

struct search_source { /* trials to try in this order */
    const size_t *indexes;
    size_t count;
    /* Called when every trial of the source was requested and is_ready() allows another.  May
     * append trials, and reallocate |indexes|.  |context| is the search's context.  NULL if the
     * source never gets more trials. */
    enum kiln_code (*more)(void *context, struct search_source *source, struct kiln_err *err);
};
/* Tries those trials of |source| that were not tried yet, until |until_ns|.  Waits longer only for
 * the very first trial of the search.  A config whose compilation ends later is tried by a later
 * call.  Returns a failure if there is no kilnd or the device is lost; the search is then over. */
KILN_MUST_CHECK enum kiln_code search_try_source(struct search *search,
                                                 struct search_source *source, uint64_t until_ns,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code search_try(struct search *search, const size_t *indexes,
                                          size_t count, uint64_t until_ns, struct kiln_err *err);
/* Times the fastest trials again, in rounds.  After each round, drops the slower half, and times
 * the rest for longer.  On success, search->best is the fastest trial, and no other trial is still
 * loaded. */
KILN_MUST_CHECK enum kiln_code search_halve(struct search *search, uint64_t until_ns,
                                            struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code search_refine(struct search *search, uint64_t until_ns,
                                             struct kiln_err *err);
bool search_goes_on(const struct search *search, uint64_t until_ns);
