/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ways to learn what is recorded for a problem: MIOpen's, kiln's.
 *
 * Role       what bench_tuning compares
 * Ownership  a way's state belongs to the process that opened it
 * Threading  one process, one thread
 */
#include "tests/bench/tuning_data.h"

struct way_place { /* where things are; borrowed */
    const struct tuning_data *data;
    const char *state;        /* kiln's state directory, with the database imported */
    const char *kiln_socket;  /* of a daemon with the same database */
    const char *floor_socket; /* tests/bench/floor.h: answered by a thread a client */
    const char *epoll_socket; /* answered by one event loop */
    size_t floor_size;        /* bytes that the bare server sends */
};

struct tuning_way {
    const char *name;
    size_t turn_max; /* look-ups in one turn; 0: every question once.  For slow ways */
    enum kiln_code (*open)(const struct way_place *place, void **ret_state, struct kiln_err *err);
    /* Once, before questions: what any client does.  May be NULL. */
    enum kiln_code (*greet)(void *state, struct kiln_err *err);
    /* Timed: the problem in, its solvers with their values out, let go of.  A miss is a failure. */
    enum kiln_code (*ask)(void *state, const struct data_question *question, struct kiln_err *err);
    void (*close)(void *state); /* accepts NULL */
};

/* What MIOpen does, by a plain C program. */
extern const struct tuning_way way_miopen_find; /* text into a hash map; parsed at each look-up */
extern const struct tuning_way way_miopen_perf_kept;  /* SQLite, kept open */
extern const struct tuning_way way_miopen_perf_fresh; /* opened for each look-up */

/* Bare sockets (tests/bench/floor.h). */
extern const struct tuning_way way_round_trip; /* kiln's fetch's sizes, nothing sent back */
extern const struct tuning_way way_same_bytes; /* as many bytes back as the mean answer has */
extern const struct tuning_way way_event_loop; /* the same from one event loop */

extern const struct tuning_way way_engine; /* tuning_find, what the daemon does inside */
extern const struct tuning_way way_kiln;   /* kiln_find_get or kiln_perf_get, its entries read */

/* way_kiln's state: |count| at once, by kiln_find_get_batch or kiln_perf_get_batch. */
KILN_MUST_CHECK enum kiln_code way_kiln_batch(void *state, const struct data_question *questions,
                                              size_t count, struct kiln_err *err);
