/* SPDX-License-Identifier: MIT */
/*
 * A thousand clients at once: those that behave get every kernel, right; what the others do leaves
 * nothing behind.
 *
 * Usage: test_load_load [CLIENTS [KERNELS [ROUNDS]]]   (default: 100 of 20 kernels, 2 rounds)
 */
#include "tests/load/crowd.h"
#include "tests/load/process_figures.h"
#include "tests/support/metrics_page.h"
#include "tests/support/raw_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUND_STEP 1000000u /* each round has kernels of its own */
/* Descriptors: each client has two at most, kilnd one for each of them and for each kernel. */
#define FILES_BESIDE 200u
/* At rest: readers of directories that are looked at now and then. */
#define FILES_MORE 4u
/* What one round more may leave in memory: rows about kernels that were not there before. */
#ifndef MEMORY_MORE_KB
#define MEMORY_MORE_KB 4096
#endif

static struct {
    unsigned clients, kernels, rounds;
} plan = { .clients = 100, .kernels = 20, .rounds = 2 };

struct fixture {
    struct daemon_process daemon;
    int watcher;
    struct process_figures resting;
    struct crowd crowd;
    struct metrics_page before, now;
};

/* ---- what must be so afterwards ---- */

static uint64_t grown(const struct fixture *f, const char *prefix)
{
    return metrics_page_sum(&f->now, prefix) - metrics_page_sum(&f->before, prefix);
}

static unsigned long long leases(const struct fixture *f)
{
    KILN_AUTO(json) struct json *answer = raw_ask(f->watcher, MESSAGE_tuning_stats, "{}");
    assert_non_null(json_get(answer, "leases"));
    return json_get_u64(answer, "leases", 0);
}

static unsigned long long unwritten(const struct fixture *f)
{
    KILN_AUTO(json) struct json *stats = raw_ask(f->watcher, MESSAGE_stats, "{}");
    return stats_number(stats, "puts") - stats_number(stats, "puts_kept") -
           stats_number(stats, "puts_lost");
}

/* One connection, the watcher's, with one request; nothing waits, runs, or is to be written. */
static bool has_nothing_to_do(void *context)
{
    static const char *const empty[] = { "kiln_inflight_compiles", "kiln_queued_compiles",
                                         "kiln_queued_bytes" };
    struct fixture *f = context;
    metrics_page_read(f->watcher, &f->now);
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++)
        sum += strtoull(metrics_page_number(&f->now, empty[i]), NULL, 10);
    return sum == 0 && metrics_page_count(&f->now, "kiln_clients") == 1 &&
           metrics_page_count(&f->now, "kiln_requests_in_flight") <= 1 && leases(f) == 0 &&
           unwritten(f) == 0;
}

static void expect_rest(struct fixture *f)
{
    if (!holds_in_time(has_nothing_to_do, f))
        fail_msg("%s clients, %s requests, %s compiles and %s that wait, %s bytes, %llu leases, "
                 "%llu kernels to write are left",
                 metrics_page_number(&f->now, "kiln_clients"),
                 metrics_page_number(&f->now, "kiln_requests_in_flight"),
                 metrics_page_number(&f->now, "kiln_inflight_compiles"),
                 metrics_page_number(&f->now, "kiln_queued_compiles"),
                 metrics_page_number(&f->now, "kiln_queued_bytes"), leases(f), unwritten(f));
}

static bool has_few_files(void *context)
{
    struct fixture *f = context;
    struct process_figures now = process_figures_of(f->daemon.pid);
    return now.files <= f->resting.files + FILES_MORE &&
           now.memory_files <=
               metrics_page_count(&f->now, "kiln_store_objects{tier=\"hot\",kind=\"objects\"}") +
                   f->resting.memory_files &&
           now.children <= f->resting.children;
}

static void expect_few_files(struct fixture *f)
{
    if (holds_in_time(has_few_files, f))
        return;
    struct process_figures now = process_figures_of(f->daemon.pid);
    fail_msg("kilnd has %u descriptors, %u objects in memory and %u children; it had %u, %u, %u",
             now.files, now.memory_files, now.children, f->resting.files, f->resting.memory_files,
             f->resting.children);
}

static void expect_equal(const char *what, uint64_t is, uint64_t should)
{
    if (is != should)
        fail_msg("%s: %llu, not %llu", what, (unsigned long long)is, (unsigned long long)should);
}

/* Each kernel has one result, each miss one reason, and nobody's kernel was made twice. */
static void expect_counters(const struct fixture *f)
{
    const struct crowd *c = &f->crowd;
    uint64_t fetches = grown(f, "kiln_fetches_total");
    uint64_t compiles = grown(f, "kiln_compiles_total{");
    uint64_t own = c->of[DYING] * CROWD_OWN_KERNELS;
    uint64_t delivered = grown(f, "kiln_fetch_results_total{result=\"hot\"}") +
                         grown(f, "kiln_fetch_results_total{result=\"disk\"}") +
                         grown(f, "kiln_fetch_results_total{result=\"compiled\"}");
    expect_equal("results of fetches", grown(f, "kiln_fetch_results_total{"), fetches);
    expect_equal("kernels that were lost", grown(f, "kiln_corruptions_total"), 0);
    unsigned came = atomic_load(&c->counts->answered) + atomic_load(&c->counts->late) +
                    atomic_load(&c->counts->early);
    if (delivered < came)
        fail_msg("%llu kernels were delivered, and %u came", (unsigned long long)delivered, came);
    if (compiles < c->pool || compiles > c->pool + own)
        fail_msg("%llu compiles of %u kernels, and %llu of those who died",
                 (unsigned long long)compiles, c->pool, (unsigned long long)own);
}

static void expect_answers(const struct fixture *f)
{
    const struct crowd *c = &f->crowd;
    if (atomic_load(&c->counts->wrong) > 0)
        fail_msg("%u wrong answers: %s", atomic_load(&c->counts->wrong), c->counts->why);
    expect_equal("right answers", atomic_load(&c->counts->answered),
                 (uint64_t)(c->of[RIGHT] + c->of[SIPPING]) * c->kernels);
}

/* ---- the run ---- */

static struct process_figures run_round(struct fixture *f, unsigned round)
{
    struct crowd *c = &f->crowd;
    metrics_page_read(f->watcher, &f->before);
    crowd_open(c, f->daemon.socket, plan.clients, plan.kernels, round * ROUND_STEP);
    metrics_page_read(f->watcher, &f->now);
    uint64_t clients = metrics_page_count(&f->now, "kiln_clients");
    assert_true(clients > plan.clients);
    struct process_figures busy = process_figures_of(f->daemon.pid);
    crowd_run(c);
    expect_answers(f);
    expect_rest(f);
    expect_few_files(f);
    expect_counters(f);
    struct process_figures now = process_figures_of(f->daemon.pid);
    print_message(
        "round %u: %llu connections at once; %u right answers, %u to mute and %u to dying "
        "clients; %u attacks, %u cut off; kilnd: %u descriptors before, %u with all there, "
        "%u after; of its own %ld, %ld, %ld kB\n",
        round, (unsigned long long)clients, atomic_load(&c->counts->answered),
        atomic_load(&c->counts->late), atomic_load(&c->counts->early),
        atomic_load(&c->counts->attacks), atomic_load(&c->counts->cut_off), f->resting.files,
        busy.files, now.files, f->resting.own_kb, busy.own_kb, now.own_kb);
    crowd_close(c);
    return now;
}

static int setup(void **state);
static int teardown(void **state);
FIXTURE(load, setup, teardown);

TEST(load, a_crowd_is_served_and_leaves_nothing_behind)
{
    struct fixture *f = *state;
    struct process_figures first = { 0 }, last = { 0 };
    for (unsigned round = 1; round <= plan.rounds; round++) {
        last = run_round(f, round);
        first = round == 1 ? last : first;
    }
    if (last.own_kb > first.own_kb + MEMORY_MORE_KB * (long)(plan.rounds - 1))
        fail_msg("kilnd has %ld kB of its own after %u rounds, and had %ld after one", last.own_kb,
                 plan.rounds, first.own_kb);
}

/* What only an administrator may do is denied to him. */
static void expect_hostile_is_nobody(const struct fixture *f)
{
    if (geteuid() != 0)
        return;
    int fd = raw_greeted_as(&f->daemon, CROWD_HOSTILE);
    raw_send_frame(fd, MESSAGE_package_remove, 2, bytes_of_text("{\"name\":\"gfx90a68.kdb\"}"));
    raw_expect_error(fd, KILN_DENIED, "");
    close(fd);
}

static int setup(void **state)
{
    static struct fixture f;
    static const char *const arguments[] = { "--compiler", KILN_BIN "/../tests/fault_compiler",
                                             "--log-level", "error", NULL };
    daemon_process_init(&f.daemon);
    memcpy(f.daemon.arguments, arguments, sizeof(arguments));
    daemon_process_start(&f.daemon);
    if (geteuid() == 0) /* others must get there */
        assert_int_equal(chmod(f.daemon.directory, 0755) | chmod(f.daemon.socket, 0666), 0);
    else
        print_message("the hostile clients are the same user as the others: this is not root\n");
    expect_hostile_is_nobody(&f);
    f.watcher = raw_greeted(&f.daemon);
    json_destroy(raw_ask(f.watcher, MESSAGE_toolchains, "{}")); /* known from here on */
    f.resting = process_figures_of(f.daemon.pid);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    close(f->watcher);
    int status = daemon_process_stop(&f->daemon);
    daemon_process_remove(&f->daemon);
    assert_int_equal(status, 0);
    return 0;
}

static unsigned argument(int argc, char **argv, int index, unsigned otherwise)
{
    unsigned long value = index < argc ? strtoul(argv[index], NULL, 10) : otherwise;
    return value > 0 && value <= 100000 ? (unsigned)value : otherwise;
}

/* Here and, as it inherits it, in kilnd. */
static bool raise_limit(void)
{
    struct rlimit files;
    unsigned needed = 4 * plan.clients + plan.rounds * plan.clients * plan.kernels / 100;
    needed += FILES_BESIDE;
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < needed)
        files.rlim_cur = files.rlim_max < needed ? files.rlim_max : needed;
    if (setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= needed)
        return true;
    print_message("skipped: %u descriptors are needed, and 'ulimit -Hn' allows %llu\n", needed,
                  (unsigned long long)files.rlim_max);
    return false;
}

int main(int argc, char **argv)
{
    plan.clients = argument(argc, argv, 1, plan.clients);
    plan.kernels = argument(argc, argv, 2, plan.kernels);
    plan.rounds = argument(argc, argv, 3, plan.rounds);
    if (!raise_limit())
        return 77;
    return test_run(NULL);
}
