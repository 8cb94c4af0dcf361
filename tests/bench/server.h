/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Servers that a benchmark starts: kilnd and redis-server.
 *
 * Role       starts servers in the work directory with private sockets, and ends them by their pids
 * Ownership  server_stop ends the process and waits for it; the server also ends with its parent
 */
#include "tests/bench/bench.h"

#include <sys/types.h>

struct server {
    pid_t pid;
    char socket[BENCH_PATH_MAX];
    uint64_t ready_ns; /* time from the server's start to its first answer */
};

struct kilnd_options {
    /* kilnd's directory below the work directory, which remains between starts */
    const char *name;
    unsigned workers; /* 0 means one for each CPU */
};

KILN_MUST_CHECK enum kiln_code kilnd_start(const struct bench_options *bench,
                                           const struct kilnd_options *options,
                                           struct server *ret_server, struct kiln_err *err);
/* Creates the directory if it does not exist. */
KILN_MUST_CHECK enum kiln_code kilnd_cache_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* Creates the directory if it does not exist. */
KILN_MUST_CHECK enum kiln_code kilnd_state_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* Redis stores nothing on disk.  Returns KILN_UNAVAILABLE if this host has no redis-server. */
KILN_MUST_CHECK enum kiln_code redis_start(const struct bench_options *bench,
                                           struct server *ret_server, struct kiln_err *err);
/* Sends SIGTERM, and SIGKILL after 20 s.  Accepts a server that is not running. */
void server_stop(struct server *server);
#define SERVER_AUTO __attribute__((cleanup(server_stop)))

/* Pins every thread of the server to |cpu|. Threads that start later inherit the CPU. */
KILN_MUST_CHECK enum kiln_code server_pin(const struct server *server, unsigned cpu,
                                          struct kiln_err *err);

struct server_memory { /* bytes, from /proc/PID/status */
    uint64_t resident;
    uint64_t shared; /* part of |resident|: the mapped memfds of the hot set */
};
KILN_MUST_CHECK enum kiln_code server_memory(const struct server *server,
                                             struct server_memory *ret_memory,
                                             struct kiln_err *err);
