/* SPDX-License-Identifier: MIT */
#pragma once

/* Starts and ends the servers that are measured: kilnd and redis-server.
 *
 * Role       servers run in the work directory with private sockets
 * Ownership  server_stop ends the process and waits for it; the server also ends with its parent */
#include "tests/bench/bench.h"

#include <sys/types.h>

struct server {
    pid_t pid;
    char socket[BENCH_PATH_MAX];
    uint64_t ready_ns; /* time from start to first answer */
};

struct kilnd_options {
    /* name of a directory in the work directory, in which kilnd keeps its files between starts */
    const char *name;
    unsigned workers; /* number of compiler processes; 0 means one for each CPU */
};

KILN_MUST_CHECK enum kiln_code kilnd_start(const struct bench_options *bench,
                                           const struct kilnd_options *options,
                                           struct server *ret_server, struct kiln_err *err);
/* Writes the path of the directory that kilnd uses as its cache. Creates it if necessary. */
KILN_MUST_CHECK enum kiln_code kilnd_cache_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* Writes the path of the directory that kilnd uses for its state. Creates it if necessary. */
KILN_MUST_CHECK enum kiln_code kilnd_state_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* Starts a Redis that stores nothing on disk. Returns KILN_UNAVAILABLE if redis-server is not
 * installed. */
KILN_MUST_CHECK enum kiln_code redis_start(const struct bench_options *bench,
                                           struct server *ret_server, struct kiln_err *err);
/* Sends SIGTERM. If the server still runs after 20 s, sends SIGKILL. Does nothing if the server is
 * not running. */
void server_stop(struct server *server);
#define SERVER_AUTO __attribute__((cleanup(server_stop)))

/* Pins all threads of the server to |cpu|. Threads that start later are pinned, too. */
KILN_MUST_CHECK enum kiln_code server_pin(const struct server *server, unsigned cpu,
                                          struct kiln_err *err);

struct server_memory { /* bytes, from /proc/PID/status */
    uint64_t resident;
    uint64_t shared; /* part of |resident| that is the mapped memfds of the hot set */
};
KILN_MUST_CHECK enum kiln_code server_memory(const struct server *server,
                                             struct server_memory *ret_memory,
                                             struct kiln_err *err);
