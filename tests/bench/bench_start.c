/* SPDX-License-Identifier: MIT */

/* Measures what many stored kernels cost: kilnd's time to start, its memory, the time of a look-up,
 * and the disk space that kilnd needs in addition to the objects. */
#include "tests/bench/cold.h"
#include "tests/bench/content.h"
#include "tests/bench/server.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define OBJECT_SIZE 2048u
#define ROUNDS_MAX 8u
#define LOOKUPS 100u
/* distance between the indices of successive look-ups; a prime that does not divide the number of
 * kernels, so that each look-up has another key */
#define STRIDE 7919u

struct population {
    struct content content;
    char name[16];
    double fill_per_s;
    uint64_t file_bytes;
    struct server kilnd;
    double ready_ms[ROUNDS_MAX], resident_mib[ROUNDS_MAX];
    double disk_us[ROUNDS_MAX], hot_us[ROUNDS_MAX];
    struct server_memory after;
};

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

static enum kiln_code fill_store(const struct bench_options *o, struct population *p,
                                 struct kiln_err *err)
{
    bench_say("start: filling a store with %zu kernels", p->content.count);
    char directory[BENCH_PATH_MAX], file[BENCH_PATH_MAX];
    enum kiln_code rc = kilnd_cache_directory(o, p->name, directory, err);
    uint64_t from = clock_monotonic_ns();
    if (!rc)
        rc = content_store(&p->content, directory, err);
    p->fill_per_s = (double)p->content.count * 1e9 / (double)(clock_monotonic_ns() - from);
    if (!rc)
        rc = bench_path(directory, "kernels.db", file, err);
    struct stat seen;
    if (!rc && stat(file, &seen))
        rc = kiln_fail(err, KILN_IO, "no '%s' after filling it", file);
    p->file_bytes = rc ? 0 : (uint64_t)seen.st_size;
    return rc;
}

static enum kiln_code start_population(const struct bench_options *o, struct population *p,
                                       struct kiln_err *err)
{
    struct kilnd_options options = { .name = p->name, .workers = 1 };
    return kilnd_start(o, &options, &p->kilnd, err);
}

static enum kiln_code start_and_stop(const struct bench_options *o, struct population *p,
                                     unsigned round, struct kiln_err *err)
{
    struct server_memory memory;
    enum kiln_code rc = start_population(o, p, err);
    if (!rc)
        rc = server_memory(&p->kilnd, &memory, err);
    if (rc)
        return rc;
    p->ready_ms[round] = (double)p->kilnd.ready_ns / 1e6;
    p->resident_mib[round] = mib(memory.resident);
    server_stop(&p->kilnd);
    return KILN_OK;
}

static enum kiln_code look_up(struct kiln_client *client, const struct population *p, size_t index,
                              int tier, struct kiln_err *err)
{
    struct digest key = content_key(&p->content, index);
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&key, hex);
    struct kiln_kernel *kernel;
    struct kiln_error error = { 0 };
    if (kiln_kernel_fetch(client, hex, 0, &kernel, &error))
        return kiln_fail(err, (enum kiln_code)error.code, "kiln: %s", error.text);
    int answered = kiln_kernel_tier(kernel);
    kiln_kernel_unref(kernel);
    if (answered != tier)
        return kiln_fail(err, KILN_INVALID, "tier %d answered, not %d", answered, tier);
    return KILN_OK;
}

/* Measures look-ups in kilnd. Opens a new client, whose in-process cache is empty. */
static enum kiln_code time_lookups(const struct population *p, unsigned round, int tier,
                                   double *ret_us, struct kiln_err *err)
{
    uint64_t samples[LOOKUPS];
    struct kiln_client *client;
    enum kiln_code rc = cold_connect(p->kilnd.socket, &client, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < LOOKUPS && !rc; i++) {
        uint64_t from = clock_monotonic_ns();
        size_t index = (round * LOOKUPS + i) * STRIDE % p->content.count;
        rc = look_up(client, p, index, tier, err);
        samples[i] = clock_monotonic_ns() - from;
    }
    kiln_client_close(client);
    if (!rc)
        *ret_us = (double)bench_percentile(samples, LOOKUPS, 0.5) / 1e3;
    return rc;
}

static enum kiln_code lookup_round(struct population *p, unsigned round, struct kiln_err *err)
{
    enum kiln_code rc = time_lookups(p, round, KILN_TIER_DISK, &p->disk_us[round], err);
    return rc ? rc : time_lookups(p, round, KILN_TIER_HOT, &p->hot_us[round], err);
}

static struct json *numbers(const double *values, unsigned first, unsigned count)
{
    struct json *array = json_array();
    for (unsigned i = first; i < count; i++)
        json_append(array, json_number(values[i]));
    return array;
}

static enum kiln_code report_population(const struct population *p, unsigned rounds,
                                        struct kiln_err *err)
{
    struct json *result = bench_result("start");
    json_set_u64(result, "kernels", p->content.count);
    json_set_u64(result, "size", p->content.size);
    json_set_number(result, "fill_per_s", p->fill_per_s);
    json_set_u64(result, "file_bytes", p->file_bytes);
    json_set(result, "ready_ms", numbers(p->ready_ms, 1, rounds));
    json_set(result, "resident_mib", numbers(p->resident_mib, 1, rounds));
    json_set(result, "disk_us", numbers(p->disk_us, 1, rounds));
    json_set(result, "hot_us", numbers(p->hot_us, 1, rounds));
    json_set_number(result, "resident_after_mib", mib(p->after.resident));
    json_set_number(result, "shared_after_mib", mib(p->after.shared));
    return bench_print(result, err);
}

static enum kiln_code run_starts(const struct bench_options *o, struct population *all,
                                 size_t count, unsigned rounds, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    bench_say("start: %u rounds", rounds);
    for (size_t i = 0; i < rounds * count && !rc; i++)
        rc = start_and_stop(o, &all[i % count], (unsigned)(i / count), err);
    return rc;
}

static enum kiln_code run_lookups(const struct bench_options *o, struct population *all,
                                  size_t count, unsigned rounds, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    bench_say("look-ups: %u rounds", rounds);
    for (size_t i = 0; i < count && !rc; i++)
        rc = start_population(o, &all[i], err);
    for (size_t i = 0; i < rounds * count && !rc; i++)
        rc = lookup_round(&all[i % count], (unsigned)(i / count), err);
    for (size_t i = 0; i < count && !rc; i++)
        rc = server_memory(&all[i].kilnd, &all[i].after, err);
    for (size_t i = 0; i < count; i++)
        server_stop(&all[i].kilnd);
    return rc;
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    static struct population all[] = {
        { .content = { CONTENT_RANDOM, OBJECT_SIZE, 1000, 0 }, .name = "start3" },
        { .content = { CONTENT_RANDOM, OBJECT_SIZE, 10000, 0 }, .name = "start4" },
        { .content = { CONTENT_RANDOM, OBJECT_SIZE, 100000, 0 }, .name = "start5" },
    };
    size_t count = o->quick ? 2 : 3;
    unsigned rounds = o->quick ? 4 : ROUNDS_MAX;
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < count && !rc; i++)
        rc = fill_store(o, &all[i], err);
    if (!rc)
        rc = run_starts(o, all, count, rounds, err);
    if (!rc)
        rc = run_lookups(o, all, count, rounds, err);
    for (size_t i = 0; i < count && !rc; i++)
        rc = report_population(&all[i], rounds, err);
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_start", run_bench); }
