/* SPDX-License-Identifier: MIT */
/* Many clients use kilnd at the same time. Those that behave must receive every kernel with the
 * right bytes. Those that misbehave must not leave anything behind in kilnd.
 *
 * Usage: test_load_load [CLIENTS [KERNELS [ROUNDS]]]
 *     (default: 100 clients, 20 kernels for each client, 2 rounds) */
#include "tests/load/crowd.h"
#include "tests/load/peer.h"
#include "tests/load/process_usage.h"
#include "tests/support/metrics_page.h"
#include "tests/support/raw_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ROUND_STEP 1000000u
/* Maximum number of kilnd's descriptors besides those of clients and kernels. */
#define FILES_BESIDE 200u
/* An idle kilnd may have this many descriptors more than before, because it scans directories now
 * and then. */
#define FILES_MORE 4u
/* The test waits this long after each round, because kilnd returns freed memory once a second. On a
 * busy machine kilnd may be later, so the test waits again for the limit after the last round. */
#define MEMORY_RETURNED_S 2
/* How much more memory kilnd may keep after each round, for the database rows of new kernels. */
#ifndef MEMORY_MORE_KB
#define MEMORY_MORE_KB 4096
#endif

static struct {
    unsigned clients, kernels, rounds;
} plan = { .clients = 100, .kernels = 20, .rounds = 2 };

struct fixture {
    struct daemon_process daemon;
    int watcher;
    struct process_usage resting;
    long memory_max_kb; /* after the last round */
    struct crowd crowd;
    struct metrics_page before, now;
};

static uint64_t growth(const struct fixture *f, const char *prefix)
{
    return metrics_page_sum(&f->now, prefix) - metrics_page_sum(&f->before, prefix);
}

static unsigned long long held_leases(const struct fixture *f)
{
    KILN_AUTO(json) struct json *answer = raw_ask(f->watcher, MESSAGE_tuning_stats, "{}");
    assert_non_null(json_get(answer, "leases"));
    return json_get_u64(answer, "leases", 0);
}

static unsigned long long unwritten_kernels(const struct fixture *f)
{
    KILN_AUTO(json) struct json *stats = raw_ask(f->watcher, MESSAGE_stats, "{}");
    return stats_number(stats, "puts") - stats_number(stats, "puts_kept") -
           stats_number(stats, "puts_lost");
}

/* Returns whether kilnd has nothing to do: the test's own connection is the only one, nothing is
 * queued or runs, and all kernels are written. */
static bool is_idle(void *context)
{
    static const char *const empty[] = { "kiln_inflight_compiles", "kiln_queued_compiles",
                                         "kiln_queued_bytes" };
    struct fixture *f = context;
    metrics_page_read(f->watcher, &f->now);
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++)
        sum += strtoull(metrics_page_number(&f->now, empty[i]), NULL, 10);
    return sum == 0 && metrics_page_count(&f->now, "kiln_clients") == 1 &&
           metrics_page_count(&f->now, "kiln_requests_in_flight") <= 1 && held_leases(f) == 0 &&
           unwritten_kernels(f) == 0;
}

static void expect_idle(struct fixture *f)
{
    if (!holds_in_time(is_idle, f))
        fail_msg("kilnd is not idle: %s clients, %s requests, %s running and %s queued compiles, "
                 "%s queued bytes, %llu leases, %llu unwritten kernels",
                 metrics_page_number(&f->now, "kiln_clients"),
                 metrics_page_number(&f->now, "kiln_requests_in_flight"),
                 metrics_page_number(&f->now, "kiln_inflight_compiles"),
                 metrics_page_number(&f->now, "kiln_queued_compiles"),
                 metrics_page_number(&f->now, "kiln_queued_bytes"), held_leases(f),
                 unwritten_kernels(f));
}

static bool has_few_files(void *context)
{
    struct fixture *f = context;
    struct process_usage now = process_usage_of(f->daemon.pid);
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
    struct process_usage now = process_usage_of(f->daemon.pid);
    fail_msg("kilnd has %u descriptors, %u objects in memory and %u children; it had %u, %u, %u",
             now.files, now.memory_files, now.children, f->resting.files, f->resting.memory_files,
             f->resting.children);
}

static void expect_equal(const char *what, uint64_t is, uint64_t should)
{
    if (is != should)
        fail_msg("%s: %llu, not %llu", what, (unsigned long long)is, (unsigned long long)should);
}

static void expect_counters(const struct fixture *f)
{
    const struct crowd *c = &f->crowd;
    uint64_t fetches = growth(f, "kiln_fetches_total");
    uint64_t compiles = growth(f, "kiln_compiles_total{");
    uint64_t own = c->count_of[KILLED] * CROWD_PRIVATE_KERNELS;
    uint64_t delivered = growth(f, "kiln_fetch_results_total{result=\"hot\"}") +
                         growth(f, "kiln_fetch_results_total{result=\"disk\"}") +
                         growth(f, "kiln_fetch_results_total{result=\"compiled\"}");
    expect_equal("results of fetches", growth(f, "kiln_fetch_results_total{"), fetches);
    expect_equal("damaged kernels", growth(f, "kiln_corruptions_total"), 0);
    unsigned came = atomic_load(&c->counts->answered) + atomic_load(&c->counts->late) +
                    atomic_load(&c->counts->early);
    if (delivered < came)
        fail_msg("kilnd counted %llu deliveries, and clients received %u kernels",
                 (unsigned long long)delivered, came);
    if (compiles < c->pool || compiles > c->pool + own)
        fail_msg("%llu compiles for %u kernels and %llu kernels of killed clients",
                 (unsigned long long)compiles, c->pool, (unsigned long long)own);
}

static void expect_answers(const struct fixture *f)
{
    const struct crowd *c = &f->crowd;
    if (atomic_load(&c->counts->wrong) > 0)
        fail_msg("%u wrong answers: %s", atomic_load(&c->counts->wrong), c->counts->why);
    expect_equal("right answers", atomic_load(&c->counts->answered),
                 (uint64_t)(c->count_of[BEHAVING] + c->count_of[SLOW]) * c->kernels);
}

static bool keeps_little_memory(void *context)
{
    struct fixture *f = context;
    return process_usage_of(f->daemon.pid).private_kb <= f->memory_max_kb;
}

static struct process_usage run_round(struct fixture *f, unsigned round)
{
    struct crowd *c = &f->crowd;
    metrics_page_read(f->watcher, &f->before);
    crowd_open(c, f->daemon.socket, plan.clients, plan.kernels, round * ROUND_STEP);
    metrics_page_read(f->watcher, &f->now);
    uint64_t clients = metrics_page_count(&f->now, "kiln_clients");
    assert_true(clients > plan.clients);
    struct process_usage busy = process_usage_of(f->daemon.pid);
    crowd_run(c);
    expect_answers(f);
    expect_idle(f);
    expect_few_files(f);
    expect_counters(f);
    sleep(MEMORY_RETURNED_S);
    struct process_usage now = process_usage_of(f->daemon.pid);
    print_message(
        "round %u: %llu connections at once; %u right answers, %u to stalled and %u to killed "
        "clients; %u attacks, %u cut off; kilnd: %u descriptors before, %u during, %u after; "
        "private memory %ld, %ld, %ld kB\n",
        round, (unsigned long long)clients, atomic_load(&c->counts->answered),
        atomic_load(&c->counts->late), atomic_load(&c->counts->early),
        atomic_load(&c->counts->attacks), atomic_load(&c->counts->cut_off), f->resting.files,
        busy.files, now.files, f->resting.private_kb, busy.private_kb, now.private_kb);
    crowd_close(c);
    return now;
}

static void expect_hostile_has_no_role(const struct fixture *f)
{
    int fd = raw_greeted_as(&f->daemon, CROWD_HOSTILE);
    raw_send_frame(fd, MESSAGE_package_remove, 2, bytes_of_text("{\"name\":\"gfx90a68.kdb\"}"));
    raw_expect_error(fd, KILN_DENIED, "");
    close(fd);
}

SET_UP(set_up)
{
    static const char *const arguments[] = { LOAD_ARGUMENTS, NULL };
    raw_serve(&f->daemon, arguments, &f->watcher);
    /* makes kilnd cache the toolchains before its memory is measured */
    json_destroy(raw_ask(f->watcher, MESSAGE_toolchains, "{}"));
    f->resting = process_usage_of(f->daemon.pid);
}

FIXTURE(load, set_up, NULL);

TEST_F(load, a_crowd_is_served_and_leaves_nothing_behind)
{
    long first_kb = 0;
    if (geteuid() == 0) {
        admit_all_users(&f->daemon);
        expect_hostile_has_no_role(f);
    } else {
        print_message("the hostile clients are the same user as the others: this is not root\n");
    }
    for (unsigned round = 1; round <= plan.rounds; round++) {
        long kb = run_round(f, round).private_kb;
        first_kb = round == 1 ? kb : first_kb;
    }
    f->memory_max_kb = first_kb + MEMORY_MORE_KB * (long)(plan.rounds - 1);
    if (!holds_in_time(keeps_little_memory, f))
        fail_msg("kilnd has %ld kB of private memory after %u rounds, and had %ld kB after one",
                 process_usage_of(f->daemon.pid).private_kb, plan.rounds, first_kb);
}

static unsigned number_argument(int argc, char **argv, int index, unsigned otherwise)
{
    unsigned long value = index < argc ? strtoul(argv[index], NULL, 10) : otherwise;
    return value > 0 && value <= 100000 ? (unsigned)value : otherwise;
}

/* Raises the limit of open descriptors, which kilnd inherits. */
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
    plan.clients = number_argument(argc, argv, 1, plan.clients);
    plan.kernels = number_argument(argc, argv, 2, plan.kernels);
    plan.rounds = number_argument(argc, argv, 3, plan.rounds);
    if (!raise_limit())
        return 77;
    return test_run(NULL);
}
