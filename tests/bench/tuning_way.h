/* SPDX-License-Identifier: MIT */
#pragma once

/* Ways to look up a problem's tuning records: with MIOpen's methods, with kiln and, for comparison,
 * with bare sockets.  bench_tuning compares them.
 *
 * Ownership  a way's state belongs to the process that opened it
 * Threading  one process, one thread */
#include "tests/bench/tuning_data.h"

struct way_place {
    const struct tuning_data *data;
    const char *state;       /* state directory of kiln with the imported database */
    const char *kiln_socket; /* socket of a kilnd that has the same database */
    /* socket of the bare server (floor.h) with one thread for each client */
    const char *floor_socket;
    const char *epoll_socket; /* socket of the bare server with one event loop */
    size_t floor_size;
};

struct tuning_way {
    const char *name;
    /* look-ups in one round, for slow ways; 0 means that each question is asked once */
    size_t round_max;
    enum kiln_code (*open)(const struct way_place *place, void **ret_state, struct kiln_err *err);
    /* Called once, before the first question. Does what every client does at its start. May be
     * NULL. */
    enum kiln_code (*connect)(void *state, struct kiln_err *err);
    /* Timed. Gets and releases the answer. Fails if there is no record. */
    enum kiln_code (*ask)(void *state, const struct data_question *question, struct kiln_err *err);
    void (*close)(void *state);
};

/* MIOpen's methods, rewritten in C. */
/* reads the file into a hash map at the start, and parses a record at each look-up */
extern const struct tuning_way way_miopen_find;
extern const struct tuning_way way_miopen_perf_kept;  /* keeps the SQLite database open */
extern const struct tuning_way way_miopen_perf_fresh; /* opens the database for each look-up */

/* Bare sockets, which answer without any look-up. */
/* a request as large as kiln's fetch, and an empty reply */
extern const struct tuning_way way_round_trip;
extern const struct tuning_way way_same_bytes; /* a reply as large as the mean answer */
/* like way_same_bytes, but from the server with one event loop */
extern const struct tuning_way way_event_loop;

extern const struct tuning_way way_engine;
/* kiln_find_get or kiln_perf_get, and reading all entries */
extern const struct tuning_way way_kiln;

/* Looks up |count| questions in one call. |state| must come from way_kiln. */
KILN_MUST_CHECK enum kiln_code way_kiln_batch(void *state, const struct data_question *questions,
                                              size_t count, struct kiln_err *err);
