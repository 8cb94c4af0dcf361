/* SPDX-License-Identifier: MIT */
#include "tests/bench/tuning_memory.h"
#include "tests/bench/tuning_phases.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

/* number of questions after the first; they show whether later answers need more memory */
#define MORE_QUESTIONS 100u

/* sizes in bytes; each is the size after the answer minus the size before, so it may be negative */
struct first {
    uint64_t ns;
    int64_t resident, own, kept;
    int64_t more_own; /* how much the further questions added to |own| */
};

struct comparison {
    const struct way_place *place;
    const struct phase_first *ways;
    size_t way_count;
    unsigned processes, rounds;
    struct bench_gate *gate;
    struct first *firsts; /* [round][way][process] */
    size_t slot;          /* index in |firsts| of the first process of the current group */
};

/* Touches the pages of all questions before the measurement, so that they do not count as memory
 * that an answer needs. */
static void touch_questions(const struct tuning_data *data)
{
    static volatile uint64_t sum;
    for (size_t i = 0; i < data->question_count; i++)
        sum = sum + data->questions[i].problem.n + (uint64_t)data->questions[i].key[0];
}

/* Touches 64 KiB of the stack before the measurement, so that this memory does not count as memory
 * that an answer needs. */
static void touch_stack(void)
{
    volatile uint8_t deep[64 << 10];
    for (size_t i = 0; i < sizeof(deep); i += 512)
        deep[i] = 1;
}

static enum kiln_code prepare_process(const struct comparison *c, void **state,
                                      struct kiln_err *err)
{
    const struct phase_first *first = &c->ways[c->slot / c->processes % c->way_count];
    struct process_memory memory;
    touch_questions(c->place->data);
    touch_stack();
    /* gives the memory that the parent freed back to the system; otherwise an answer could use this
     * memory, and the measurement would miss it */
    malloc_trim(0);
    enum kiln_code rc = process_memory(&memory, err);
    if (!rc && first->connected)
        rc = first->way->open(c->place, state, err);
    return !rc && first->connected ? first->way->connect(*state, err) : rc;
}

static enum kiln_code ask_more(const struct comparison *c, const struct tuning_way *way,
                               void *state, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < MORE_QUESTIONS && !rc; i++)
        rc = way->ask(state, &c->place->data->questions[i % c->place->data->question_count], err);
    return rc;
}

static enum kiln_code measure_first(const struct comparison *c, const struct tuning_way *way,
                                    unsigned process, void **state, struct kiln_err *err)
{
    const struct tuning_data *data = c->place->data;
    size_t question = (c->slot + process) * 7 % data->question_count;
    struct first *ret = &c->firsts[c->slot + process];
    struct process_memory before = { 0 }, after = { 0 }, later = { 0 };
    enum kiln_code rc = process_memory(&before, err);
    uint64_t from = clock_monotonic_ns();
    if (!rc && !*state)
        rc = way->open(c->place, state, err);
    if (!rc)
        rc = way->ask(*state, &data->questions[question], err);
    ret->ns = clock_monotonic_ns() - from;
    if (!rc)
        rc = process_memory(&after, err);
    if (!rc && !way->round_max)
        rc = ask_more(c, way, *state, err);
    if (!rc)
        rc = process_memory(&later, err);
    if (rc)
        return kiln_while(err, "'%s'", way->name);
    ret->resident = (int64_t)(after.resident - before.resident);
    ret->own = (int64_t)(after.own - before.own);
    ret->kept = (int64_t)(after.kept - before.kept);
    ret->more_own = (int64_t)(later.own - after.own);
    return KILN_OK;
}

static enum kiln_code run_new_client(void *context, unsigned process, struct kiln_err *err)
{
    const struct comparison *c = context;
    const struct tuning_way *way = c->ways[c->slot / c->processes % c->way_count].way;
    void *state = NULL;
    enum kiln_code rc = prepare_process(c, &state, err);
    if (rc)
        return kiln_while(err, "'%s'", way->name);
    bench_gate_pass(c->gate);
    rc = measure_first(c, way, process, &state, err);
    if (!rc)
        /* Waits until all processes are measured: if one process freed its memory before, the
         * results of the others could change. */
        bench_gate_pass(c->gate);
    way->close(state);
    return rc;
}

static double middle_of(const struct first *firsts, unsigned count,
                        double (*of)(const struct first *))
{
    double sorted[PHASE_PROCESSES_MAX];
    for (unsigned i = 0; i < count; i++) {
        double value = of(&firsts[i]);
        unsigned at = i;
        for (; at > 0 && sorted[at - 1] > value; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    return sorted[(count - 1) / 2];
}

static double ms_of(const struct first *f) { return (double)f->ns / 1e6; }
static double resident_of(const struct first *f) { return (double)f->resident / 1024; }
static double own_of(const struct first *f) { return (double)f->own / 1024; }
static double kept_of(const struct first *f) { return (double)f->kept; }
static double more_of(const struct first *f) { return (double)f->more_own / 1024; }

/* Returns one number for each round: the median of the results of its processes. */
static struct json *rounds_of(const struct comparison *c, size_t way,
                              double (*of)(const struct first *))
{
    struct json *array = json_array();
    for (unsigned round = 0; round < c->rounds; round++)
        json_append(array,
                    json_number(middle_of(&c->firsts[(round * c->way_count + way) * c->processes],
                                          c->processes, of)));
    return array;
}

static enum kiln_code report_way(const struct comparison *c, size_t way, struct kiln_err *err)
{
    struct json *result = phase_result("tuning_first", c->place->data);
    json_set_text(result, "way", c->ways[way].way->name);
    json_set_bool(result, "greeted", c->ways[way].connected);
    json_set_u64(result, "processes", c->processes);
    json_set(result, "ms", rounds_of(c, way, ms_of));
    json_set(result, "resident_kib", rounds_of(c, way, resident_of));
    json_set(result, "own_kib", rounds_of(c, way, own_of));
    json_set(result, "kept_bytes", rounds_of(c, way, kept_of));
    json_set(result, "more_own_kib", rounds_of(c, way, more_of));
    return bench_print(result, err);
}

static enum kiln_code run_comparison(struct comparison *c, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    size_t fan_outs = c->rounds * c->way_count;
    for (size_t i = 0; i < fan_outs && !rc; i++) {
        c->slot = i * c->processes;
        rc = bench_gate_init(c->gate, c->processes, err);
        if (!rc)
            rc = bench_fan_out(c->processes, run_new_client, c, err);
    }
    for (size_t way = 0; way < c->way_count && !rc; way++)
        rc = report_way(c, way, err);
    return rc;
}

enum kiln_code phase_first(const struct way_place *place, const struct phase_firsts *firsts,
                           struct kiln_err *err)
{
    struct comparison c = {
        .place = place,
        .ways = firsts->ways,
        .way_count = firsts->way_count,
        .processes = firsts->processes,
        .rounds = firsts->rounds,
    };
    size_t fan_outs = c.rounds * c.way_count;
    size_t size = sizeof(struct bench_gate) + fan_outs * c.processes * sizeof(struct first);
    void *memory;
    enum kiln_code rc = bench_shared(size, &memory, err);
    if (rc)
        return rc;
    bench_say("tuning: first answers from '%s', %u at once", place->data->name, c.processes);
    c.gate = memory;
    c.firsts = (struct first *)(c.gate + 1);
    rc = run_comparison(&c, err);
    bench_shared_done(memory, size);
    return rc;
}
