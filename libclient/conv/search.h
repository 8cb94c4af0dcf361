/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The search for a solver's best perf config, by trials.
 *
 * Role       which configs are tried, how long each is timed and which are dropped; what a trial
 *            costs in compilers and devices is behind struct search_ops, of which tests have a fake
 *
 *   try     many configs, each timed shortly; one that is hopeless beside the best is cut short
 *   halve   of the fastest sixteen the better half is timed twice as long, until two are left; a
 *           result is checked before it may win, and a wrong one goes
 *   refine  the neighbours of the best along each axis are tried, as long as one of them is better
 *
 * Ownership  a search owns its trials and their texts; what a trial holds of compiled and loaded
 *            things is the ops'
 * Threading  one thread
 */
#include "common/bytes.h"
#include "libclient/conv/timing.h"

#include <kiln/conv.h>

#define SEARCH_AXES_MAX 16u

enum trial_place { TRIAL_UNTRIED, TRIAL_ASKED, TRIAL_HELD, TRIAL_DONE };

struct search_trial {
    char *config;           /* owned */
    int state;              /* KILN_CONV_TIMED, ...; KILN_CONV_UNTIMED until then */
    enum trial_place place; /* HELD: loaded; DONE: tried, and nothing is held */
    struct timing timing;
    uint64_t checked;     /* elements */
    char *reason;         /* owned; NULL: none */
    void *held;           /* the ops'; not looked at */
    unsigned value_count; /* 0: the config is not of the form "1,2,3" */
    uint16_t values[SEARCH_AXES_MAX];
};

struct search;

struct search_ops {
    uint64_t (*now_ns)(void *context);
    /* Room for another ask. */
    bool (*has_room)(void *context);
    KILN_MUST_CHECK enum kiln_code (*ask)(void *context, size_t trial, struct kiln_err *err);
    /* The next that is compiled and loaded; |ret_code| and |why| say what was wrong with it, with
     * KILN_COMPILE_FAILED for its compiler.  A failure: KILN_TIMED_OUT when none came by then. */
    KILN_MUST_CHECK enum kiln_code (*next)(void *context, uint64_t deadline_ns, size_t *ret_trial,
                                           enum kiln_code *ret_code, struct kiln_err *why,
                                           struct kiln_err *err);
    /* Forgets what was asked and did not come. */
    void (*clear)(void *context);
    KILN_MUST_CHECK enum kiln_code (*time)(void *context, size_t trial,
                                           const struct timing_limits *limits,
                                           struct timing *ret_timing, struct kiln_err *err);
    /* KILN_CORRUPT: its result is wrong. */
    KILN_MUST_CHECK enum kiln_code (*check)(void *context, size_t trial, uint64_t *ret_checked,
                                            struct kiln_err *err);
    bool (*is_alive)(void *context); /* the device, after a failure */
    void (*drop)(void *context, size_t trial);
    /* A trial has its result, or another one than was told of it.  True: enough. */
    bool (*reported)(void *context, const struct search_trial *trial);
};

struct search {
    const struct search_ops *ops; /* borrowed, as the next */
    void *context;
    uint64_t give_up_ns; /* until when the first trial is waited for, whatever the budget */

    struct search_trial *trials; /* owned */
    size_t count, room;
    size_t *slots; /* owned: hash table of index + 1, by config */
    size_t slot_count;
    size_t best; /* the fastest that was timed and found right; SIZE_MAX: none yet */
    size_t open; /* asked and not come */
    unsigned tried, failed;
    bool has_enough; /* told() said so */
};

void search_init(struct search *search, const struct search_ops *ops, void *context);
void search_done(struct search *search); /* drops what trials hold */

/* Another config to try, unless it is known; |ret_index| is its trial. */
KILN_MUST_CHECK enum kiln_code search_add(struct search *search, const char *config,
                                          size_t *ret_index, struct kiln_err *err);
/* SIZE_MAX: none has that config. */
size_t search_find(const struct search *search, const char *config);

/* Tries |indexes|, those that are untried, until |until_ns|; but waits for the first of all.  What
 * did not come by then is tried whenever it comes.  A failure ends the search: no kilnd, or the
 * device is lost. */
KILN_MUST_CHECK enum kiln_code search_try(struct search *search, const size_t *indexes,
                                          size_t count, uint64_t until_ns, struct kiln_err *err);
/* Ends with search->best timed long, and nothing else held. */
KILN_MUST_CHECK enum kiln_code search_halve(struct search *search, uint64_t until_ns,
                                            struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code search_refine(struct search *search, uint64_t until_ns,
                                             struct kiln_err *err);
/* Whether time is left, and nobody had enough. */
bool search_goes_on(const struct search *search, uint64_t until_ns);
