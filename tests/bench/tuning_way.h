/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ways to look up the records of a problem: MIOpen's and kiln's.
 *
 * Role       bench_tuning compares them
 * Ownership  a way's state belongs to the process that opened it
 * Threading  one process, one thread
 */
#include "tests/bench/tuning_data.h"

struct way_place { /* paths and sockets; borrowed */
    const struct tuning_data *data;
    const char *state;        /* kiln's state directory, with the database imported */
    const char *kiln_socket;  /* the socket of a daemon with the same database */
    const char *floor_socket; /* tests/bench/floor.h: one thread for each client */
    const char *epoll_socket; /* one event loop */
    size_t floor_size;        /* how many bytes the bare server sends */
};

struct tuning_way {
    const char *name;
    size_t round_max; /* look-ups in one round, for slow ways; 0: every question once */
    enum kiln_code (*open)(const struct way_place *place, void **ret_state, struct kiln_err *err);
    /* Called once before questions, for what any client does at its start. May be NULL. */
    enum kiln_code (*connect)(void *state, struct kiln_err *err);
    /* Timed: looks up a problem's solvers and their values, and frees them. A miss is a failure. */
    enum kiln_code (*ask)(void *state, const struct data_question *question, struct kiln_err *err);
    void (*close)(void *state); /* accepts NULL */
};

/* MIOpen's way, in a C program. */
extern const struct tuning_way
    way_miopen_find; /* reads the text into a hash map, parses at each look-up */
extern const struct tuning_way way_miopen_perf_kept;  /* SQLite, kept open */
extern const struct tuning_way way_miopen_perf_fresh; /* opened for each look-up */

/* Bare sockets (tests/bench/floor.h). */
extern const struct tuning_way way_round_trip; /* sizes of kiln's fetch; an empty reply */
extern const struct tuning_way way_same_bytes; /* a reply with as many bytes as the mean answer */
extern const struct tuning_way way_event_loop; /* the same from one event loop */

extern const struct tuning_way way_engine; /* tuning_find, as the daemon calls it */
extern const struct tuning_way way_kiln;   /* kiln_find_get or kiln_perf_get; reads all entries */

/* |state| is way_kiln's. Looks up |count| problems with kiln_find_get_batch or
 * kiln_perf_get_batch. */
KILN_MUST_CHECK enum kiln_code way_kiln_batch(void *state, const struct data_question *questions,
                                              size_t count, struct kiln_err *err);
