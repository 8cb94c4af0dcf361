/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Servers that a benchmark starts: kilnd and redis-server.
 *
 * Role       started in the work directory with private sockets, ended by pid
 * Ownership  server_stop ends the process and waits for it; the server also ends with its parent
 */
#include "tests/bench/bench.h"

#include <sys/types.h>

struct server {
    pid_t pid; /* 0 when not running */
    char socket[BENCH_PATH_MAX];
    uint64_t ready_ns; /* from start to its first answer */
};

struct kilnd_options {
    /* Name of kilnd's directory below the work directory, which stays between starts. */
    const char *name;
    unsigned workers; /* compiler processes; 0: as many as CPUs */
};

/* Returns when the daemon has answered a ping. The error message names its log. */
KILN_MUST_CHECK enum kiln_code kilnd_start(const struct bench_options *bench,
                                           const struct kilnd_options *options,
                                           struct server *ret_server, struct kiln_err *err);
/* The directory of that daemon's kernels.db. It is created if it is absent. */
KILN_MUST_CHECK enum kiln_code kilnd_cache_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* The same for its tuning.db. */
KILN_MUST_CHECK enum kiln_code kilnd_state_directory(const struct bench_options *bench,
                                                     const char *name, char path[BENCH_PATH_MAX],
                                                     struct kiln_err *err);
/* KILN_UNAVAILABLE: this host has no redis-server. Redis stores nothing on disk. */
KILN_MUST_CHECK enum kiln_code redis_start(const struct bench_options *bench,
                                           struct server *ret_server, struct kiln_err *err);
/* SIGTERM, SIGKILL after 20 s.  Accepts a server that does not run. */
void server_stop(struct server *server);
#define SERVER_AUTO __attribute__((cleanup(server_stop)))

/* Pins every thread of the server to one CPU, and thereby threads that start later. */
KILN_MUST_CHECK enum kiln_code server_pin(const struct server *server, unsigned cpu,
                                          struct kiln_err *err);

struct server_memory { /* bytes, /proc/PID/status */
    uint64_t resident;
    uint64_t shared; /* part of resident: mapped memfds, the hot set's */
};
KILN_MUST_CHECK enum kiln_code server_memory(const struct server *server,
                                             struct server_memory *ret_memory,
                                             struct kiln_err *err);
