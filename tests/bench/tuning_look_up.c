/* SPDX-License-Identifier: MIT */
#include "tests/bench/tuning_phases.h"

#include <string.h>

struct interval {
    uint64_t begin_ns, end_ns;
};

struct comparison {
    const struct way_place *place;
    const struct phase_setting *setting;
    size_t way_count;
    struct bench_gate *gate;
    struct interval *intervals; /* [round][way][process] */
    uint64_t *samples; /* indexed by round, way and process, with DATA_QUESTIONS samples each */
};

static size_t questions_of(const struct comparison *c, size_t way)
{
    size_t limit = c->setting->ways[way]->round_max, all = c->place->data->question_count;
    return limit && limit < all ? limit : all;
}

struct slot {
    size_t round, way;
    unsigned process;
};

static size_t slot_index(const struct comparison *c, const struct slot *s)
{
    return (s->round * c->way_count + s->way) * c->setting->processes + s->process;
}

static enum kiln_code time_way(const struct comparison *c, const struct slot *slot, void *state,
                               struct kiln_err *err)
{
    const struct tuning_way *ops = c->setting->ways[slot->way];
    const struct tuning_data *data = c->place->data;
    struct interval *interval = &c->intervals[slot_index(c, slot)];
    uint64_t *samples = &c->samples[slot_index(c, slot) * DATA_QUESTIONS];
    size_t start = data->question_count * slot->process / c->setting->processes;
    size_t count = questions_of(c, slot->way);
    enum kiln_code rc = KILN_OK;
    bench_gate_pass(c->gate);
    interval->begin_ns = clock_monotonic_ns();
    for (size_t i = 0; i < count && !rc; i++) {
        uint64_t from = clock_monotonic_ns();
        rc = ops->ask(state, &data->questions[(start + i) % data->question_count], err);
        samples[i] = clock_monotonic_ns() - from;
    }
    interval->end_ns = clock_monotonic_ns();
    bench_gate_pass(c->gate);
    return rc ? kiln_while(err, "'%s'", ops->name) : KILN_OK;
}

static enum kiln_code run_rounds(const struct comparison *c, void **states, unsigned process,
                                 struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < c->setting->rounds * c->way_count && !rc; i++) {
        const struct slot slot = { i / c->way_count, i % c->way_count, process };
        rc = time_way(c, &slot, states[slot.way], err);
    }
    return rc;
}

static enum kiln_code run_client(void *context, unsigned process, struct kiln_err *err)
{
    const struct comparison *c = context;
    void *states[PHASE_WAYS_MAX] = { NULL };
    enum kiln_code rc = c->setting->cpus == CPUS_ANY ? KILN_OK : bench_pin(0, c->setting->cpu, err);
    for (size_t i = 0; i < c->way_count && !rc; i++) {
        const struct tuning_way *way = c->setting->ways[i];
        rc = way->open(c->place, &states[i], err);
        if (!rc && way->connect)
            rc = way->connect(states[i], err);
    }
    if (!rc)
        rc = run_rounds(c, states, process, err);
    for (size_t i = 0; i < c->way_count; i++)
        c->setting->ways[i]->close(states[i]);
    return rc;
}

struct rates {
    double mean_us, p50_us, p99_us, per_s;
};

static struct rates rates_of(const struct comparison *c, size_t round, size_t way)
{
    static uint64_t merged[PHASE_PROCESSES_MAX * DATA_QUESTIONS];
    size_t questions = questions_of(c, way), count = 0;
    uint64_t begin = UINT64_MAX, end = 0, sum = 0;
    for (unsigned process = 0; process < c->setting->processes; process++) {
        size_t slot = slot_index(c, &(const struct slot){ round, way, process });
        const struct interval *interval = &c->intervals[slot];
        memcpy(merged + count, &c->samples[slot * DATA_QUESTIONS], questions * sizeof(uint64_t));
        count += questions;
        sum += interval->end_ns - interval->begin_ns;
        begin = interval->begin_ns < begin ? interval->begin_ns : begin;
        end = interval->end_ns > end ? interval->end_ns : end;
    }
    return (struct rates){
        .mean_us = (double)sum / (double)count / 1e3,
        .p50_us = (double)bench_percentile(merged, count, 0.50) / 1e3,
        .p99_us = (double)bench_percentile(merged, count, 0.99) / 1e3,
        .per_s = (double)count * 1e9 / (double)(end - begin),
    };
}

static enum kiln_code report_way(const struct comparison *c, size_t way, struct kiln_err *err)
{
    struct json *mean = json_array(), *p50 = json_array(), *p99 = json_array(),
                *rate = json_array();
    for (size_t round = 1; round < c->setting->rounds; round++) {
        struct rates f = rates_of(c, round, way);
        json_append(mean, json_number(f.mean_us));
        json_append(p50, json_number(f.p50_us));
        json_append(p99, json_number(f.p99_us));
        json_append(rate, json_number(f.per_s));
    }
    struct json *result = phase_result("tuning_look_up", c->place->data);
    json_set_text(result, "way", c->setting->ways[way]->name);
    json_set_u64(result, "processes", c->setting->processes);
    json_set_text(result, "cpus", bench_cpus_name(c->setting->cpus));
    json_set_u64(result, "questions", questions_of(c, way));
    json_set(result, "mean_us", mean);
    json_set(result, "p50_us", p50);
    json_set(result, "p99_us", p99);
    json_set(result, "per_s", rate);
    return bench_print(result, err);
}

static enum kiln_code run_comparison(struct comparison *c, struct kiln_err *err)
{
    enum kiln_code rc = bench_gate_init(c->gate, c->setting->processes, err);
    if (!rc)
        rc = bench_fan_out(c->setting->processes, run_client, c, err);
    for (size_t way = 0; way < c->way_count && !rc; way++)
        rc = report_way(c, way, err);
    return rc;
}

enum kiln_code phase_look_up(const struct way_place *place, const struct phase_setting *setting,
                             struct kiln_err *err)
{
    struct comparison c = { .place = place, .setting = setting };
    while (setting->ways[c.way_count])
        c.way_count++;
    size_t slots = setting->rounds * c.way_count * setting->processes;
    size_t intervals = sizeof(struct bench_gate) + slots * sizeof(struct interval);
    size_t samples = slots * DATA_QUESTIONS * sizeof(uint64_t);
    void *front = NULL, *back = NULL;
    bench_say("tuning: look-ups in '%s', %u process%s, CPUs: %s", place->data->name,
              setting->processes, setting->processes > 1 ? "es" : "",
              bench_cpus_name(setting->cpus));
    enum kiln_code rc = bench_shared(intervals, &front, err);
    if (!rc)
        rc = bench_shared(samples, &back, err);
    if (!rc) {
        c.gate = front;
        c.intervals = (struct interval *)(c.gate + 1);
        c.samples = back;
        rc = run_comparison(&c, err);
    }
    bench_shared_done(front, intervals);
    bench_shared_done(back, samples);
    return rc;
}
