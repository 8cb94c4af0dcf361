/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Servers of our own for the length of a benchmark: kilnd, redis-server.
 *
 * Role       started in the work directory with private sockets, ended by pid
 * Ownership  server_stop ends the process and waits for it; it also dies with its parent
 */
#include "tests/bench/bench.h"

#include <sys/types.h>

struct server {
    pid_t pid; /* 0 when not running */
    char socket[BENCH_PATH_MAX];
    uint64_t ready_ns; /* from start to its first answer */
};

struct kilnd_options {
    const char *name; /* of its directory below the work directory; kept between starts */
    unsigned workers; /* compilers; 0: as many as CPUs */
};

/* Returns when the daemon answered a ping; the sentence names its log. */
KILN_MUST_CHECK enum kiln_code kilnd_start(const struct bench_options *bench,
                                           const struct kilnd_options *options,
                                           struct server *ret_server, struct kiln_err *err);
/* The directory that holds that daemon's kernels.db, made if absent. */
KILN_MUST_CHECK enum kiln_code kilnd_cache_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* The directory of its tuning.db, likewise. */
KILN_MUST_CHECK enum kiln_code kilnd_state_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* KILN_UNAVAILABLE when there is no redis-server here.  Nothing is kept on disk. */
KILN_MUST_CHECK enum kiln_code redis_start(const struct bench_options *bench,
                                           struct server *ret_server, struct kiln_err *err);
/* SIGTERM, SIGKILL after 20 s.  Accepts a server that does not run. */
void server_stop(struct server *server);
#define SERVER_AUTO __attribute__((cleanup(server_stop)))

/* Keeps every thread of the server, and threads they start later, on one CPU. */
KILN_MUST_CHECK enum kiln_code server_pin(const struct server *server, unsigned cpu,
                                          struct kiln_err *err);

struct server_memory { /* bytes, /proc/PID/status */
    uint64_t resident;
    uint64_t shared; /* part of resident: mapped memfds, the hot set's */
};
KILN_MUST_CHECK enum kiln_code server_memory(const struct server *server,
                                             struct server_memory *ret_memory,
                                             struct kiln_err *err);
