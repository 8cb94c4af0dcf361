/* SPDX-License-Identifier: MIT */

/* Measures fetches of stored objects with 1 and 16 client processes, for each way to get an
 * object's bytes (subject.h). The ways alternate. */
#include "tests/bench/floor.h"
#include "tests/bench/subject.h"

#include <stdio.h>
#include <string.h>

#define SUBJECTS_MAX 10
#define LATENCIES_MAX 1000

typedef const struct subject_ops *const ways[];

static ways one_client_small = {
    &subject_round_trip,
    &subject_inline,
    &subject_descriptor,
    &subject_descriptor_kept,
    &subject_redis,
    &subject_kiln_wire,
    &subject_kiln,
    &subject_kiln_table,
    NULL,
};
static ways two_cpus = {
    &subject_round_trip, &subject_inline, &subject_kiln_wire, &subject_kiln, NULL,
};
static ways one_client_miopen = {
    &subject_round_trip,      &subject_descriptor,
    &subject_descriptor_kept, &subject_redis,
    &subject_kiln_wire,       &subject_kiln,
    &subject_kiln_table,      &subject_miopen_kept,
    &subject_miopen_fresh,    NULL,
};
static ways one_client_large = {
    &subject_round_trip,
    &subject_descriptor,
    &subject_descriptor_kept,
    &subject_redis,
    &subject_kiln_wire,
    &subject_kiln,
    NULL,
};
static ways many_clients = {
    &subject_descriptor, &subject_descriptor_epoll,
    &subject_redis,      &subject_kiln_wire,
    &subject_kiln,       NULL,
};

struct setting {
    struct content content;
    unsigned clients;
    /* With CPUS_ANY, the results vary with the scheduler's choice: waking an idle CPU takes longer
     * than a whole request. */
    enum bench_cpus cpus;
    bool quick;
    const struct subject_ops *const *ways;
};

static const struct setting settings[] = {
    { { CONTENT_RANDOM, 4096, 1000, 0 }, 1, CPUS_ONE, true, one_client_small },
    { { CONTENT_RANDOM, 4096, 1000, 0 }, 1, CPUS_ANY, false, one_client_small },
    { { CONTENT_RANDOM, 4096, 1000, 0 }, 1, CPUS_TWO, true, two_cpus },
    { { CONTENT_CODE, 20480, 500, 0 }, 1, CPUS_ONE, true, one_client_miopen },
    { { CONTENT_CODE, 20480, 500, 0 }, 1, CPUS_ANY, true, one_client_miopen },
    { { CONTENT_POOR, 65536, 500, 0 }, 1, CPUS_ONE, true, one_client_miopen },
    { { CONTENT_POOR, 65536, 500, 0 }, 1, CPUS_ANY, false, one_client_miopen },
    { { CONTENT_RANDOM, 1 << 20, 128, 0 }, 1, CPUS_ONE, false, one_client_large },
    { { CONTENT_RANDOM, 4096, 1000, 0 }, 16, CPUS_ANY, true, many_clients },
    { { CONTENT_RANDOM, 65536, 500, 1 }, 16, CPUS_ANY, true, many_clients },
    { { CONTENT_RANDOM, 65536, 500, 0 }, 16, CPUS_ANY, true, many_clients },
    { { CONTENT_RANDOM, 1 << 20, 128, 1 }, 16, CPUS_ANY, true, many_clients },
    { { CONTENT_RANDOM, 1 << 20, 128, 0 }, 16, CPUS_ANY, true, many_clients },
};

struct interval {
    uint64_t begin_ns, end_ns;
};

struct comparison {
    const struct setting *setting;
    struct subject_place place;
    unsigned cpu;
    const struct subject_ops *ways[SUBJECTS_MAX];
    size_t way_count, rounds;
    struct bench_gate *gate;
    struct interval *intervals; /* [round][way][client] */
    uint64_t *samples;          /* [round][way][client], times LATENCIES_MAX */
};

static size_t fetches_of(const struct comparison *c, size_t way)
{
    size_t limit = c->ways[way]->round_max, all = c->setting->content.count;
    return limit && limit < all ? limit : all;
}

struct slot {
    size_t round, way;
    unsigned client;
};

static size_t slot_index(const struct comparison *c, const struct slot *s)
{
    return (s->round * c->way_count + s->way) * c->setting->clients + s->client;
}

/* ---- in a client process ---- */

static enum kiln_code time_way(const struct comparison *c, const struct slot *slot,
                               struct subject *s, struct kiln_err *err)
{
    struct interval *interval = &c->intervals[slot_index(c, slot)];
    uint64_t *samples = &c->samples[slot_index(c, slot) * LATENCIES_MAX];
    size_t start = c->setting->content.count * slot->client / c->setting->clients;
    size_t fetches = fetches_of(c, slot->way);
    enum kiln_code rc = s->ops->begin ? s->ops->begin(s, err) : KILN_OK;
    bench_gate_pass(c->gate);
    interval->begin_ns = clock_monotonic_ns();
    for (size_t i = 0; i < fetches && !rc; i++) {
        uint64_t from = clock_monotonic_ns();
        rc = s->ops->fetch(s, (start + i) % c->setting->content.count, err);
        samples[i] = clock_monotonic_ns() - from;
    }
    if (!rc && s->ops->end)
        rc = s->ops->end(s, err);
    interval->end_ns = clock_monotonic_ns();
    bench_gate_pass(c->gate);
    return rc ? kiln_while(err, "'%s'", s->ops->name) : KILN_OK;
}

static enum kiln_code run_rounds(const struct comparison *c, struct subject **subjects,
                                 unsigned client, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < c->rounds * c->way_count && !rc; i++) {
        const struct slot slot = { i / c->way_count, i % c->way_count, client };
        rc = time_way(c, &slot, subjects[slot.way], err);
    }
    return rc;
}

static enum kiln_code client_main(void *context, unsigned client, struct kiln_err *err)
{
    const struct comparison *c = context;
    struct subject *subjects[SUBJECTS_MAX] = { NULL };
    enum kiln_code rc = c->setting->cpus == CPUS_ANY ? KILN_OK : bench_pin(0, c->cpu, err);
    for (size_t i = 0; i < c->way_count && !rc; i++)
        rc = c->ways[i]->open(&c->place, &subjects[i], err);
    if (!rc)
        rc = run_rounds(c, subjects, client, err);
    for (size_t i = 0; i < c->way_count; i++) {
        if (subjects[i])
            subjects[i]->ops->close(subjects[i]);
    }
    return rc;
}

/* ---- results ---- */

struct rates {
    double p50_us, p99_us, per_s;
};

static struct rates rates_of(const struct comparison *c, size_t round, size_t way)
{
    static uint64_t merged[16 * LATENCIES_MAX];
    size_t fetches = fetches_of(c, way), count = 0;
    uint64_t begin = UINT64_MAX, end = 0;
    for (unsigned client = 0; client < c->setting->clients; client++) {
        size_t slot = slot_index(c, &(const struct slot){ round, way, client });
        memcpy(merged + count, &c->samples[slot * LATENCIES_MAX], fetches * sizeof(uint64_t));
        count += fetches;
        begin = c->intervals[slot].begin_ns < begin ? c->intervals[slot].begin_ns : begin;
        end = c->intervals[slot].end_ns > end ? c->intervals[slot].end_ns : end;
    }
    return (struct rates){
        .p50_us = (double)bench_percentile(merged, count, 0.50) / 1e3,
        .p99_us = (double)bench_percentile(merged, count, 0.99) / 1e3,
        .per_s = (double)count * 1e9 / (double)(end - begin),
    };
}

static size_t touched_of(const struct content *content)
{
    return content->touch ? content->touch : content->size;
}

/* Prints the results of all rounds but the first, which only warms up. */
static enum kiln_code report_way(const struct comparison *c, size_t way, double ratio,
                                 struct kiln_err *err)
{
    const struct content *content = &c->setting->content;
    struct json *p50 = json_array(), *p99 = json_array(), *rate = json_array();
    for (size_t round = 1; round < c->rounds; round++) {
        struct rates f = rates_of(c, round, way);
        json_append(p50, json_number(f.p50_us));
        json_append(p99, json_number(f.p99_us));
        json_append(rate, json_number(f.per_s));
    }
    struct json *result = bench_result("fetch");
    json_set_text(result, "way", c->ways[way]->name);
    json_set_text(result, "content", content_kind_name(content->kind));
    json_set_u64(result, "size", content->size);
    json_set_u64(result, "clients", c->setting->clients);
    json_set_text(result, "cpus", bench_cpus_name(c->setting->cpus));
    json_set_u64(result, "touched", touched_of(content));
    json_set_u64(result, "fetches", fetches_of(c, way));
    if (ratio > 0)
        json_set_number(result, "bzip2_ratio", ratio);
    json_set(result, "p50_us", p50);
    json_set(result, "p99_us", p99);
    json_set(result, "per_s", rate);
    return bench_print(result, err);
}

static enum kiln_code run_clients(struct comparison *c, double ratio, struct kiln_err *err)
{
    enum kiln_code rc = bench_gate_init(c->gate, c->setting->clients, err);
    if (!rc)
        rc = bench_fan_out(c->setting->clients, client_main, c, err);
    for (size_t way = 0; way < c->way_count && !rc; way++)
        rc = report_way(c, way, ratio, err);
    return rc;
}

static enum kiln_code run_comparison(struct comparison *c, double ratio, struct kiln_err *err)
{
    size_t slots = c->rounds * c->way_count * c->setting->clients;
    size_t intervals = sizeof(struct bench_gate) + slots * sizeof(struct interval);
    size_t samples = slots * LATENCIES_MAX * sizeof(uint64_t);
    void *front = NULL, *back = NULL;
    enum kiln_code rc = bench_shared(intervals, &front, err);
    if (!rc)
        rc = bench_shared(samples, &back, err);
    if (!rc) {
        c->gate = front;
        c->intervals = (struct interval *)(c->gate + 1);
        c->samples = back;
        rc = run_clients(c, ratio, err);
    }
    bench_shared_done(front, intervals);
    bench_shared_done(back, samples);
    return rc;
}

/* ---- servers ---- */

struct servers {
    struct server floor, redis, kiln;
    char floor_socket[BENCH_PATH_MAX], epoll_socket[BENCH_PATH_MAX];
    char miopen_file[BENCH_PATH_MAX];
    /* MIOpen's compression: raw size divided by stored size; 0 if MIOpen's database could not be
     * created */
    double miopen_ratio;
    struct kiln_err no_redis, no_miopen;
};

static void servers_done(struct servers *s)
{
    server_stop(&s->floor);
    server_stop(&s->redis);
    server_stop(&s->kiln);
    unlink(s->miopen_file);
}

static bool uses_way(const struct setting *setting, const struct subject_ops *ops)
{
    const struct subject_ops *const *way = setting->ways;
    while (*way && *way != ops)
        way++;
    return *way != NULL;
}

static enum kiln_code start_kiln(const struct bench_options *o, const struct content *content,
                                 struct server *ret_server, struct kiln_err *err)
{
    struct kilnd_options options = { .name = "fetch" };
    char directory[BENCH_PATH_MAX];
    enum kiln_code rc = kilnd_cache_directory(o, options.name, directory, err);
    if (!rc)
        rc = content_store(content, directory, err);
    return rc ? rc : kilnd_start(o, &options, ret_server, err);
}

static enum kiln_code start_redis(const struct bench_options *o, const struct content *content,
                                  struct server *ret_server, struct kiln_err *err)
{
    enum kiln_code rc = redis_start(o, ret_server, err);
    return rc ? rc : redis_fill(content, ret_server->socket, err);
}

static enum kiln_code start_servers(const struct bench_options *o, const struct setting *setting,
                                    struct servers *s, struct kiln_err *err)
{
    const struct content *content = &setting->content;
    enum kiln_code rc = bench_path(o->work, "floor", s->floor_socket, err);
    if (!rc)
        rc = bench_path(o->work, "epoll", s->epoll_socket, err);
    if (!rc)
        rc = bench_path(o->work, "miopen.kdb", s->miopen_file, err);
    if (!rc)
        rc = floor_start(content, s->floor_socket, s->epoll_socket, &s->floor, err);
    if (!rc && uses_way(setting, &subject_redis))
        s->no_redis.code = start_redis(o, content, &s->redis, &s->no_redis);
    if (!rc && uses_way(setting, &subject_miopen_kept))
        s->no_miopen.code = miopen_fill(content, s->miopen_file, &s->miopen_ratio, &s->no_miopen);
    return rc ? rc : start_kiln(o, content, &s->kiln, err);
}

static enum kiln_code pin_servers(const struct servers *s, unsigned cpu, struct kiln_err *err)
{
    const struct server *all[] = { &s->floor, &s->redis, &s->kiln };
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !rc; i++) {
        if (all[i]->pid)
            rc = server_pin(all[i], cpu, err);
    }
    return rc;
}

static const char *why_not(const struct servers *s, const struct subject_ops *ops)
{
    if (ops == &subject_redis && s->no_redis.code)
        return s->no_redis.text;
    bool miopen = ops == &subject_miopen_kept || ops == &subject_miopen_fresh;
    return miopen && s->no_miopen.code ? s->no_miopen.text : NULL;
}

static enum kiln_code report_absent(const struct setting *setting, const struct subject_ops *ops,
                                    const char *why, struct kiln_err *err)
{
    bench_say("not run: %s: %s", ops->name, why);
    struct json *result = bench_result("fetch");
    json_set_text(result, "way", ops->name);
    json_set_u64(result, "size", setting->content.size);
    json_set_u64(result, "clients", setting->clients);
    json_set_text(result, "cpus", bench_cpus_name(setting->cpus));
    json_set_u64(result, "touched", touched_of(&setting->content));
    json_set_text(result, "not_run", why);
    return bench_print(result, err);
}

static enum kiln_code choose_ways(struct comparison *c, const struct servers *s,
                                  struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (const struct subject_ops *const *way = c->setting->ways; *way && !rc; way++) {
        const char *why = why_not(s, *way);
        if (why)
            rc = report_absent(c->setting, *way, why, err);
        else
            c->ways[c->way_count++] = *way;
    }
    return rc;
}

static enum kiln_code run_setting(const struct bench_options *o, const struct setting *setting,
                                  struct kiln_err *err)
{
    bench_say("fetch: %zu bytes (%s), %zu touched, %u client%s, CPUs: %s", setting->content.size,
              content_kind_name(setting->content.kind), touched_of(&setting->content),
              setting->clients, setting->clients > 1 ? "s" : "", bench_cpus_name(setting->cpus));
    __attribute__((cleanup(servers_done))) struct servers s = { .miopen_ratio = 0 };
    enum kiln_code rc = start_servers(o, setting, &s, err);
    if (!rc && setting->cpus != CPUS_ANY)
        rc = pin_servers(&s, o->last_cpu, err);
    if (rc)
        return rc;
    struct comparison comparison = {
        .setting = setting,
        .cpu = setting->cpus == CPUS_TWO ? o->first_cpu : o->last_cpu,
        .place = { .content = &setting->content,
                   .floor_socket = s.floor_socket,
                   .epoll_socket = s.epoll_socket,
                   .redis_socket = s.redis.socket,
                   .kiln_socket = s.kiln.socket,
                   .miopen_file = s.miopen_file },
        .rounds = o->quick ? 4 : 8, /* including the first, which only warms up */
    };
    rc = choose_ways(&comparison, &s, err);
    return rc ? rc : run_comparison(&comparison, s.miopen_ratio, err);
}

static enum kiln_code run_bench(const struct bench_options *o, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && !rc; i++) {
        bool is_possible = settings[i].cpus != CPUS_TWO || o->first_cpu != o->last_cpu;
        if (is_possible && (settings[i].quick || !o->quick))
            rc = run_setting(o, &settings[i], err);
    }
    return rc;
}

int main(int argc, char **argv) { return bench_main(argc, argv, "bench_fetch", run_bench); }
