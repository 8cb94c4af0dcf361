/* SPDX-License-Identifier: MIT */
#pragma once

/* Code that all benchmarks share: command line, rounds in several processes, statistics and
 * results.
 *
 * A machine's speed varies over time. So each round measures every compared way once: with two
 * ways A and B, the order is A B, A B, and so on. The report uses the median over the rounds, and
 * the median of the rounds' ratios.
 *
 * Role       a benchmark prints each result as one JSON line on standard output, and progress and
 *            errors on standard error. tests/bench/report.py makes tables of the results
 * Ownership  shared memory is unmapped by bench_shared_done
 * Threading  bench_fan_out forks: call it before any thread is started */
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/json.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_PATH_MAX 512

struct bench_options {
    char bin[BENCH_PATH_MAX];  /* directory that contains kilnd and kiln-compiler */
    char work[BENCH_PATH_MAX]; /* an empty directory for stores and sockets */
    bool quick;
    unsigned cpus;
    unsigned first_cpu;
    unsigned last_cpu; /* usually gets the fewest interrupts */
};

/* Without --bin, |bin| is the directory of this program. */
KILN_MUST_CHECK enum kiln_code bench_parse(int argc, char **argv, struct bench_options *ret_options,
                                           struct kiln_err *err);
int bench_main(int argc, char **argv, const char *name,
               enum kiln_code (*body)(const struct bench_options *options, struct kiln_err *err));
KILN_MUST_CHECK enum kiln_code bench_path(const char *work, const char *name,
                                          char path[BENCH_PATH_MAX], struct kiln_err *err);

/* |tid| 0 means the calling thread. A pinned thread cannot be unpinned. */
KILN_MUST_CHECK enum kiln_code bench_pin(pid_t tid, unsigned cpu, struct kiln_err *err);

enum bench_cpus {
    CPUS_ANY, /* the scheduler chooses the CPUs of all processes */
    CPUS_TWO, /* clients on one CPU, servers on another */
    CPUS_ONE, /* clients and servers on one CPU */
};
const char *bench_cpus_name(enum bench_cpus cpus);

/* Maps zeroed memory that this process shares with the processes that it forks later. */
KILN_MUST_CHECK enum kiln_code bench_shared(size_t size, void **ret_memory, struct kiln_err *err);
void bench_shared_done(void *memory, size_t size);

/* A barrier: bench_gate_pass returns when |count| processes have called it. The gate must be in
 * shared memory. */
struct bench_gate {
    pthread_barrier_t barrier;
};
KILN_MUST_CHECK enum kiln_code bench_gate_init(struct bench_gate *gate, unsigned count,
                                               struct kiln_err *err);
void bench_gate_pass(struct bench_gate *gate);

/* Runs |client| in |count| processes and waits for all. If one fails, kills the others and returns
 * its code and message. */
typedef enum kiln_code bench_client(void *context, unsigned index, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code bench_fan_out(unsigned count, bench_client *client, void *context,
                                             struct kiln_err *err);

/* Returns the sample at |fraction| (0 to 1) by the nearest-rank method. |count| must not be 0.
 * Sorts |samples|. */
uint64_t bench_percentile(uint64_t *samples, size_t count, double fraction);

/* Returns a JSON object to which the caller adds the results, or NULL if out of memory. bench_print
 * frees it. */
struct json *bench_result(const char *bench);
KILN_MUST_CHECK enum kiln_code bench_print(struct json *result, struct kiln_err *err);
void bench_say(const char *fmt, ...) KILN_PRINTF(1, 2);
