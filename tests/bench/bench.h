/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What every benchmark shares: its command line, rounds in several processes, statistics, results.
 *
 * Role       a benchmark prints one JSON line a result on standard output (tests/bench/report.py
 *            makes the table of them); progress and errors go to standard error
 * Ownership  shared memory is unmapped by bench_shared_done
 * Threading  bench_fan_out forks: call it before any thread is started
 *
 * Machines are noisy, so compared things take turns (A B A B), each turn gives one figure, and
 * the report takes the median of the turns and of their ratios.
 */
#include "common/clock.h"
#include "common/err.h"
#include "common/json.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_PATH_MAX 512

struct bench_options {
    char bin[BENCH_PATH_MAX];  /* directory of kilnd and kiln-compiler */
    char work[BENCH_PATH_MAX]; /* an empty directory for stores and sockets */
    bool quick;                /* fewer rounds and sizes */
    unsigned cpus;             /* that we may use */
    unsigned first_cpu;        /* the lowest of them */
    unsigned last_cpu;         /* the highest of them: the fewest interrupts go there */
};

/* --bin DIR --work DIR --quick; the default of --bin is this program's own directory. */
KILN_MUST_CHECK enum kiln_code bench_parse(int argc, char **argv, struct bench_options *ret_options,
                                           struct kiln_err *err);
/* Runs |body| with the parsed options; the whole main() of a benchmark. */
int bench_main(int argc, char **argv, const char *name,
               enum kiln_code (*body)(const struct bench_options *options, struct kiln_err *err));
/* |work|/|name| into |path|; KILN_INVALID when it does not fit. */
KILN_MUST_CHECK enum kiln_code bench_path(const char *work, const char *name,
                                          char path[BENCH_PATH_MAX], struct kiln_err *err);

/* Keeps thread |tid| (0: the caller) on one CPU. */
KILN_MUST_CHECK enum kiln_code bench_pin(pid_t tid, unsigned cpu, struct kiln_err *err);

/* Zeroed memory that children share with their parent. */
KILN_MUST_CHECK enum kiln_code bench_shared(size_t size, void **ret_memory, struct kiln_err *err);
void bench_shared_done(void *memory, size_t size); /* accepts NULL */

/* Where all processes of a fan-out meet; lies in shared memory. */
struct bench_gate {
    pthread_barrier_t barrier;
};
KILN_MUST_CHECK enum kiln_code bench_gate_init(struct bench_gate *gate, unsigned count,
                                               struct kiln_err *err);
void bench_gate_pass(struct bench_gate *gate);

/* Runs |client| in |count| processes and waits for all; the first failure ends the others and
 * comes back with its sentence. */
typedef enum kiln_code bench_client(void *context, unsigned index, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code bench_fan_out(unsigned count, bench_client *client, void *context,
                                             struct kiln_err *err);

/* The value below which |fraction| of the |count| > 0 samples lie (nearest rank); sorts them. */
uint64_t bench_percentile(uint64_t *samples, size_t count, double fraction);

/* One result: |bench|'s name is set; the caller adds members.  NULL when out of memory. */
struct json *bench_result(const char *bench);
/* Prints |result| as one line and releases it. */
KILN_MUST_CHECK enum kiln_code bench_print(struct json *result, struct kiln_err *err);
/* A line for people who watch. */
void bench_say(const char *fmt, ...) KILN_PRINTF(1, 2);
