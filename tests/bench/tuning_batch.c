/* SPDX-License-Identifier: MIT */
#include "tests/bench/tuning_phases.h"

#define ITEMS 1000u
#define ROUNDS 21u /* including the first, which only warms up */

struct timings {
    uint64_t one_ns[ROUNDS], all_ns[ROUNDS];
};

struct job {
    const struct way_place *place;
    const struct phase_setting *setting;
    struct timings *timings;
};

static size_t items_of(const struct tuning_data *data)
{
    return data->question_count < ITEMS ? data->question_count : ITEMS;
}

static enum kiln_code time_way(const struct job *job, void *state, unsigned round,
                               struct kiln_err *err)
{
    const struct tuning_data *data = job->place->data;
    size_t items = items_of(data), sets = data->question_count / items;
    const struct data_question *questions = &data->questions[round % sets * items];
    uint64_t start = clock_monotonic_ns();
    enum kiln_code rc = way_kiln_batch(state, questions, 1, err);
    uint64_t middle = clock_monotonic_ns();
    if (!rc)
        rc = way_kiln_batch(state, questions, items, err);
    job->timings->one_ns[round] = middle - start;
    job->timings->all_ns[round] = clock_monotonic_ns() - middle;
    return rc;
}

static enum kiln_code in_child(void *context, unsigned index, struct kiln_err *err)
{
    (void)index;
    const struct job *job = context;
    void *state = NULL;
    enum kiln_code rc = bench_pin(0, job->setting->cpu, err);
    if (!rc)
        rc = way_kiln.open(job->place, &state, err);
    for (unsigned round = 0; round < ROUNDS && !rc; round++)
        rc = time_way(job, state, round, err);
    way_kiln.close(state);
    return rc;
}

static enum kiln_code report_batch(const struct job *job, struct kiln_err *err)
{
    struct json *one = json_array(), *each = json_array();
    double items = (double)items_of(job->place->data);
    for (unsigned round = 1; round < ROUNDS; round++) {
        json_append(one, json_number((double)job->timings->one_ns[round] / 1e3));
        json_append(each, json_number((double)job->timings->all_ns[round] / 1e3 / items));
    }
    struct json *result = phase_result("tuning_batch", job->place->data);
    json_set_u64(result, "items", items_of(job->place->data));
    json_set_text(result, "cpus", bench_cpus_name(job->setting->cpus));
    json_set(result, "one_us", one);
    json_set(result, "each_us", each);
    return bench_print(result, err);
}

enum kiln_code phase_batch(const struct way_place *place, const struct phase_setting *setting,
                           struct kiln_err *err)
{
    void *memory;
    enum kiln_code rc = bench_shared(sizeof(struct timings), &memory, err);
    if (rc)
        return rc;
    bench_say("tuning: batches from '%s'", place->data->name);
    struct job job = { .place = place, .setting = setting, .timings = memory };
    rc = bench_fan_out(1, in_child, &job, err);
    if (!rc)
        rc = report_batch(&job, err);
    bench_shared_done(memory, sizeof(struct timings));
    return rc;
}
