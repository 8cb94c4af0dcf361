/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ways to look up the records of a problem: with MIOpen's method and with kiln. bench_tuning
 * compares these ways.
 *
 * Ownership  a way's state belongs to the process that opened it
 * Threading  one process, one thread
 */
#include "tests/bench/tuning_data.h"

struct way_place {
    const struct tuning_data *data;
    const char *state;       /* kiln's state directory, into which the database was imported */
    const char *kiln_socket; /* socket of a kilnd with the same database */
    /* socket of a bare server with one thread for each client (tests/bench/floor.h) */
    const char *floor_socket;
    const char *epoll_socket; /* socket of a bare server with one event loop */
    size_t floor_size;
};

struct tuning_way {
    const char *name;
    /* number of look-ups in one round, for slow ways; 0 means that each question is asked once */
    size_t round_max;
    enum kiln_code (*open)(const struct way_place *place, void **ret_state, struct kiln_err *err);
    /* Called once before the questions, for work that any client does at its start. May be NULL. */
    enum kiln_code (*connect)(void *state, struct kiln_err *err);
    /* Timed, including the release of the answer.  Fails on a miss. */
    enum kiln_code (*ask)(void *state, const struct data_question *question, struct kiln_err *err);
    void (*close)(void *state);
};

/* MIOpen's methods, in a C program. */
extern const struct tuning_way
    way_miopen_find; /* reads the text into a hash map, and parses a record at each look-up */
extern const struct tuning_way way_miopen_perf_kept;  /* uses SQLite, with the database kept open */
extern const struct tuning_way way_miopen_perf_fresh; /* opens the database for each look-up */

/* Bare sockets (tests/bench/floor.h). */
/* the request is as large as kiln's fetch, and the reply is empty */
extern const struct tuning_way way_round_trip;
extern const struct tuning_way way_same_bytes; /* the reply has as many bytes as the mean answer */
extern const struct tuning_way way_event_loop; /* a server with one event loop */

extern const struct tuning_way way_engine;
/* calls kiln_find_get or kiln_perf_get, and reads all entries */
extern const struct tuning_way way_kiln;

/* |state| must be that of way_kiln. */
KILN_MUST_CHECK enum kiln_code way_kiln_batch(void *state, const struct data_question *questions,
                                              size_t count, struct kiln_err *err);
