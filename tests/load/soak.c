/* SPDX-License-Identifier: MIT */
/* Sends as many requests as a busy host sends in a day, but in SECONDS. Meanwhile, kilnd's memory
 * and number of descriptors must not grow.
 *
 * Usage: test_load_soak [SECONDS [JOBS [REQUESTS]]] (default: 2 s, 64 jobs of 100 requests)
 *
 * A job connects, fetches kernels, looks up tuning data, fetches one new kernel, and disconnects.
 * Every eighth job sends one more request and disconnects without waiting. WORK_QUEUES jobs run at
 * once. scripts/load has the arguments for a whole day; docs/reliability.md explains them. */
#include "tests/faults/made_kernel.h"
#include "tests/load/peer.h"
#include "tests/load/process_usage.h"
#include "tests/support/metrics_page.h"
#include "tests/support/raw_client.h"
#include "tests/support/wait.h"

#include <kiln/kiln.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORK_QUEUES 8u
#define COMMON 400u         /* number of kernels that all jobs share */
#define NEW_FIRST 20000000u /* job n, and no other job, fetches the kernel NEW_FIRST + n */
#define SAMPLES 100u
#define WARM 25u /* number of samples at the start that do not count */
/* Limits of the hot set and of the cache; too low for all kernels, so that kilnd must evict
 * some. */
#define HOT_LIMIT "8MiB"
#define HOT_COUNT "1000"
#define CACHE_LIMIT "16MiB"
/* Allowed growth, measured along the regression line through the samples that count. */
#ifndef GROWTH_MAX_KB
#define GROWTH_MAX_KB 2048
#endif
/* above 0, because a sample may count connections that are open at that moment */
#define FILES_MORE 4.0

static struct {
    unsigned seconds, jobs, requests;
} plan = { .seconds = 2, .jobs = 64, .requests = 100 };

struct soak {
    struct daemon_process daemon;
    int watcher;
    uint64_t hashes[COMMON];
    struct timespec start;
    atomic_uint next_job, done_jobs;
    atomic_ullong requests, fetched;
    atomic_uint wrong;
    char why[512];
    struct process_usage samples[SAMPLES];
    unsigned taken;
};

static void note_failure(struct soak *s, const char *what, const char *text)
{
    if (atomic_fetch_add(&s->wrong, 1) == 0)
        snprintf(s->why, sizeof(s->why), "%s: %.400s", what, text);
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void sleep_until(const struct soak *s, unsigned part, unsigned parts)
{
    double wait = (double)plan.seconds * part / parts - seconds_since(&s->start);
    if (wait <= 0)
        return;
    const struct timespec pause = { .tv_sec = (time_t)wait,
                                    .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9) };
    nanosleep(&pause, NULL);
}

static void fetch_kernel(struct soak *s, struct kiln_client *client, unsigned number)
{
    char text[64];
    made_source(number, text);
    const struct kiln_kernel_source source = { .size = sizeof(source),
                                               .target = MADE_TARGET,
                                               .toolchain = MADE_TOOLCHAIN,
                                               .program = "soak.cl",
                                               .source = text };
    struct kiln_kernel *kernel = NULL;
    struct kiln_error err = { 0 };
    atomic_fetch_add(&s->requests, 1);
    if (kiln_kernel_fetch_source(client, &source, &kernel, &err)) {
        note_failure(s, "a kernel does not come", err.text);
        return;
    }
    uint64_t hash = number < COMMON ? s->hashes[number] : made_hash(number);
    if (content_hash(bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel))) != hash)
        note_failure(s, "a kernel came", "with wrong bytes");
    atomic_fetch_add(&s->fetched, 1);
    kiln_kernel_unref(kernel);
}

static const struct kiln_problem problem = { .size = sizeof(problem),
                                             .spatial_dims = 2,
                                             .n = 64,
                                             .c = 64,
                                             .k = 64,
                                             .groups = 1,
                                             .in = { 1, 56, 56 },
                                             .filter = { 1, 1, 1 },
                                             .stride = { 1, 1, 1 },
                                             .dilation = { 1, 1, 1 } };

static void look_up(struct soak *s, struct kiln_client *client)
{
    const struct kiln_tuning_options options = { .size = sizeof(options),
                                                 .database_id = "gfx90a68" };
    struct kiln_tuned *tuned = NULL;
    struct kiln_error err = { 0 };
    atomic_fetch_add(&s->requests, 1);
    int rc = kiln_find_get(client, &problem, &options, &tuned, &err);
    if (rc && rc != KILN_E_NOT_FOUND)
        note_failure(s, "a look-up is not answered", err.text);
    kiln_tuned_free(tuned);
}

static void disconnect_midway(struct soak *s, unsigned number)
{
    struct peer peer = { .fd = -1 };
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    peer_write_fetch(&body, number, 0);
    if (!peer_open(&peer, s->daemon.socket) ||
        !peer_send_frame(&peer, MESSAGE_fetch_source, 1, buffer_view(&body), false))
        note_failure(s, "a job that disconnects", "cannot send its request");
    peer_close(&peer);
}

static void run_job(struct soak *s, unsigned job)
{
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = s->daemon.socket,
                                                 .cache_entries = -1 };
    struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    if (kiln_client_open(&options, &client, &err)) {
        note_failure(s, "a job cannot connect", err.text);
        return;
    }
    for (unsigned i = 0; i + 1 < plan.requests; i++) {
        if (i % 10 == 9)
            look_up(s, client);
        else
            fetch_kernel(s, client, (job + i) % COMMON);
    }
    fetch_kernel(s, client, NEW_FIRST + job);
    if (job % WORK_QUEUES == 0)
        disconnect_midway(s, NEW_FIRST + job);
    kiln_client_close(client);
    atomic_fetch_add(&s->done_jobs, 1);
}

static void *run_work_queue(void *context)
{
    struct soak *s = context;
    for (unsigned job; (job = atomic_fetch_add(&s->next_job, 1)) < plan.jobs;) {
        sleep_until(s, job, plan.jobs);
        run_job(s, job);
    }
    return NULL;
}

static bool sample_is_due(void *context)
{
    const struct soak *s = context;
    return atomic_load(&s->done_jobs) * SAMPLES >= (s->taken + 1) * plan.jobs ||
           atomic_load(&s->wrong) > 0;
}

static void take_samples(struct soak *s)
{
    static struct metrics_page page;
    for (; s->taken < SAMPLES && atomic_load(&s->wrong) == 0; s->taken++) {
        sleep_until(s, s->taken + 1, SAMPLES);
        if (!holds_in_time(sample_is_due, s))
            note_failure(s, "the jobs are late", "none ended in the last minute");
        /* |page| is not used: the request is part of the load, like that of a Prometheus server */
        metrics_page_read(s->watcher, &page);
        s->samples[s->taken] = process_usage_of(s->daemon.pid);
    }
}

static double growth_of(const struct soak *s, double (*value_of)(const struct process_usage *))
{
    double n = SAMPLES - WARM, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
    for (unsigned i = WARM; i < SAMPLES; i++) {
        double x = i - WARM, y = value_of(&s->samples[i]);
        sum_x += x;
        sum_y += y;
        sum_xx += x * x;
        sum_xy += x * y;
    }
    return (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x) * (n - 1);
}

static double rss_of(const struct process_usage *f) { return (double)f->rss_kb; }
static double pss_of(const struct process_usage *f) { return (double)f->pss_kb; }
static double files_of(const struct process_usage *f) { return (double)f->files; }
static double memory_files_of(const struct process_usage *f) { return (double)f->memory_files; }

static void print_samples(const struct soak *s, double took)
{
    const struct process_usage *first = &s->samples[WARM], *last = &s->samples[SAMPLES - 1];
    print_message("%llu requests of %u jobs in %.0f s: %.0f a second; %llu kernels fetched\n",
                  atomic_load(&s->requests), atomic_load(&s->done_jobs), took,
                  (double)atomic_load(&s->requests) / took, atomic_load(&s->fetched));
    print_message("sample    RSS kB    PSS kB  descriptors  in memory  threads\n");
    for (unsigned i = WARM; i < SAMPLES; i += (SAMPLES - WARM) / 5) {
        const struct process_usage *f = &s->samples[i];
        print_message("%6u  %8ld  %8ld  %11u  %9u  %7u\n", i + 1, f->rss_kb, f->pss_kb, f->files,
                      f->memory_files, f->threads);
    }
    print_message("%6u  %8ld  %8ld  %11u  %9u  %7u\n", SAMPLES, last->rss_kb, last->pss_kb,
                  last->files, last->memory_files, last->threads);
    print_message("by the line through samples %u to %u: RSS %+.0f kB, PSS %+.0f kB, descriptors "
                  "%+.1f, of objects in memory %+.1f; from sample to sample: RSS %+ld kB\n",
                  WARM + 1, SAMPLES, growth_of(s, rss_of), growth_of(s, pss_of),
                  growth_of(s, files_of), growth_of(s, memory_files_of),
                  last->rss_kb - first->rss_kb);
}

static void expect_flat(const struct soak *s)
{
    if (growth_of(s, rss_of) > GROWTH_MAX_KB || growth_of(s, pss_of) > GROWTH_MAX_KB)
        fail_msg("kilnd grew by %.0f kB (RSS), %.0f kB (PSS), more than %d", growth_of(s, rss_of),
                 growth_of(s, pss_of), GROWTH_MAX_KB);
    if (growth_of(s, files_of) > FILES_MORE)
        fail_msg("kilnd has %.1f descriptors more", growth_of(s, files_of));
}

static bool adds_up(void *context)
{
    static struct metrics_page page;
    struct soak *s = context;
    metrics_page_read(s->watcher, &page);
    return metrics_page_sum(&page, "kiln_fetch_results_total{") ==
               metrics_page_count(&page, "kiln_fetches_total") &&
           metrics_page_count(&page, "kiln_clients") == 1 &&
           metrics_page_count(&page, "kiln_queued_compiles") == 0;
}

SET_UP_OF(set_up, struct soak)
{
    static const char *const arguments[] = { LOAD_ARGUMENTS, "--hot-limit", HOT_LIMIT,
                                             "--hot-count",  HOT_COUNT,     "--cache-limit",
                                             CACHE_LIMIT,    NULL };
    raw_serve(&f->daemon, arguments, &f->watcher);
}

FIXTURE_OF(soak, struct soak, set_up, NULL);

TEST_F(soak, a_day_leaves_memory_and_descriptors_flat)
{
    pthread_t work_queues[WORK_QUEUES];
    for (unsigned i = 0; i < COMMON; i++)
        f->hashes[i] = made_hash(i);
    clock_gettime(CLOCK_MONOTONIC, &f->start);
    for (unsigned i = 0; i < WORK_QUEUES; i++)
        assert_int_equal(pthread_create(&work_queues[i], NULL, run_work_queue, f), 0);
    take_samples(f);
    for (unsigned i = 0; i < WORK_QUEUES; i++)
        await_thread(work_queues[i], NULL);
    double took = seconds_since(&f->start);
    if (atomic_load(&f->wrong) > 0)
        fail_msg("%u wrong answers: %s", atomic_load(&f->wrong), f->why);
    assert_int_equal(atomic_load(&f->done_jobs), plan.jobs);
    print_samples(f, took);
    expect_flat(f);
    wait_until("the counters of kilnd to add up", adds_up, f);
}

static unsigned number_argument(int argc, char **argv, int index, unsigned otherwise)
{
    unsigned long value = index < argc ? strtoul(argv[index], NULL, 10) : otherwise;
    return value > 0 && value <= 100000 ? (unsigned)value : otherwise;
}

int main(int argc, char **argv)
{
    plan.seconds = number_argument(argc, argv, 1, plan.seconds);
    plan.jobs = number_argument(argc, argv, 2, plan.jobs);
    plan.requests = number_argument(argc, argv, 3, plan.requests);
    return test_run(NULL);
}
