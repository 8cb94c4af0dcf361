/* SPDX-License-Identifier: MIT */
#include "libclient/conv/bench.h"

#include "common/base/clock.h"
#include "libclient/device/device.h"
#include "libclient/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED_CHECKED 0x6b696c6eu
#define SEED_TIMED 0x74756e65u
#define COMPARED_MAX ((uint64_t)256 << 20)
/* The byte that fills a result before a kernel writes it.  An element of such bytes is not a
 * number, in any floating-point type. */
#define POISON 0xff

struct bench {
    struct kiln_device *device;
    struct kiln_stream *stream;
    struct pace *pace;
    struct problem problem;
    int output;
    uint64_t bytes[3], elements[3];
    struct kiln_memory *checked[3], *timed[3];
    bool is_given;
    struct kiln_memory *workspace;
    struct kiln_event *begin, *end;
    double largest; /* product of the operands' largest magnitudes; 0 for OPERANDS_EXACT */
    uint64_t compared;
    void *want, *got; /* |want| is the reference solver's result, NULL before bench_refer */
};

struct subject {
    struct bench *bench;
    struct kiln_plan *plan;
    struct kiln_run *run;
    bool is_winograd;
};

/* ---- creation ---- */

void bench_destroy(struct bench *bench)
{
    if (!bench)
        return;
    for (int i = 0; i < 3; i++) {
        if (bench->timed[i] != bench->checked[i])
            kiln_memory_destroy(bench->timed[i]);
        if (!bench->is_given)
            kiln_memory_destroy(bench->checked[i]);
    }
    kiln_memory_destroy(bench->workspace);
    kiln_event_destroy(bench->begin);
    kiln_event_destroy(bench->end);
    free(bench->want);
    free(bench->got);
    free(bench);
}

static enum kiln_code finish_stream(const struct bench *b, struct kiln_err *err)
{
    struct kiln_error e;
    int rc = b->stream ? kiln_stream_finish(b->stream, &e) : kiln_device_finish(b->device, &e);
    return error_take(rc, &e, err);
}

static void measure_tensors(struct bench *b)
{
    static const int outputs[] = { [DIRECTION_FORWARD] = KILN_TENSOR_Y,
                                   [DIRECTION_BACKWARD_DATA] = KILN_TENSOR_X,
                                   [DIRECTION_BACKWARD_WEIGHTS] = KILN_TENSOR_W };
    size_t size = data_type_size((enum data_type)b->problem.type);
    b->output = outputs[b->problem.direction];
    b->elements[KILN_TENSOR_X] = problem_x_elements(&b->problem);
    b->elements[KILN_TENSOR_W] = problem_w_elements(&b->problem);
    b->elements[KILN_TENSOR_Y] = problem_y_elements(&b->problem);
    for (int i = 0; i < 3; i++)
        b->bytes[i] = b->elements[i] * size;
    uint64_t limit = COMPARED_MAX / size;
    b->compared = b->elements[b->output] < limit ? b->elements[b->output] : limit;
}

/* Beside a job, measurements must leave half of the free memory to the job. */
static enum kiln_code check_memory(const struct bench *b, uint64_t bytes, struct kiln_err *err)
{
    const struct device_ops *ops = b->device->ops;
    uint64_t left = b->pace && ops->free_bytes ? ops->free_bytes(b->device) : UINT64_MAX;
    if (bytes <= left / 2)
        return KILN_OK;
    return kiln_fail(err, KILN_NO_MEMORY,
                     "measuring beside a job needs %llu bytes, more than half of the %llu bytes "
                     "that are free",
                     (unsigned long long)bytes, (unsigned long long)left);
}

static enum kiln_code make_operand(struct bench *b, int which, enum operands kind,
                                   struct kiln_memory **ret_memory, struct kiln_err *err)
{
    struct kiln_error e;
    if (pace_is_stopped(b->pace)) /* a large tensor takes seconds */
        return kiln_fail(err, KILN_TIMED_OUT, "the job has ended");
    uint64_t seed = kind == OPERANDS_EXACT ? SEED_CHECKED : SEED_TIMED;
    KILN_AUTO(mem) void *data = malloc(b->bytes[which]);
    if (!data)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a tensor of %llu bytes",
                         (unsigned long long)b->bytes[which]);
    operands_fill(kind, &b->problem, data, b->elements[which], seed + (uint64_t)which);
    struct kiln_memory *memory = NULL;
    uint64_t began = clock_monotonic_ns(); /* the device does not work while the host fills */
    enum kiln_code rc =
        error_take(kiln_memory_create(b->device, b->bytes[which], &memory, &e), &e, err);
    if (!rc)
        rc = memory_write(memory, data, b->bytes[which], b->stream, err);
    pace_rest(b->pace, began);
    if (rc)
        kiln_memory_destroy(memory);
    else
        *ret_memory = memory;
    return rc;
}

static enum kiln_code make_operands(struct bench *b, enum operands kind,
                                    struct kiln_memory *memories[3], struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (int i = 0; i < 3 && !rc; i++) {
        if (i != b->output)
            rc = make_operand(b, i, kind, &memories[i], err);
    }
    return rc;
}

/* Creates the operands on which times are measured.  If there is too little memory, uses the
 * operands on which results are checked. */
static enum kiln_code make_timed(struct bench *b, struct kiln_err *err)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    b->timed[b->output] = b->checked[b->output];
    enum kiln_code rc = make_operands(b, OPERANDS_GENERAL, b->timed, &ignored);
    if (rc && rc != KILN_NO_MEMORY)
        return kiln_fail(err, rc, "%s", ignored.text);
    for (int i = 0; rc && i < 3; i++) {
        if (i != b->output)
            kiln_memory_destroy(b->timed[i]);
        b->timed[i] = b->checked[i];
    }
    return KILN_OK;
}

static enum kiln_code make_tensors(struct bench *b, struct kiln_err *err)
{
    struct kiln_error e;
    int out = b->output;
    /* both sets of operands, and the result */
    uint64_t bytes = 2 * (b->bytes[0] + b->bytes[1] + b->bytes[2]) - b->bytes[out];
    enum kiln_code rc = check_memory(b, bytes, err);
    if (!rc)
        rc = make_operands(b, OPERANDS_EXACT, b->checked, err);
    if (!rc)
        rc =
            error_take(kiln_memory_create(b->device, b->bytes[out], &b->checked[out], &e), &e, err);
    return rc ? rc : make_timed(b, err);
}

static enum kiln_code read_largest(struct bench *b, int which, double *ret_largest,
                                   struct kiln_err *err)
{
    KILN_AUTO(mem) void *data = malloc(b->bytes[which]);
    if (!data)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a tensor of %llu bytes",
                         (unsigned long long)b->bytes[which]);
    enum kiln_code rc = memory_read(b->checked[which], data, b->bytes[which], b->stream, err);
    if (!rc)
        *ret_largest = operands_largest((enum data_type)b->problem.type, data, b->elements[which]);
    return rc;
}

/* Waits for the stream first, because earlier work of the caller may still write to the tensors. */
static enum kiln_code take_tensors(struct bench *b, struct kiln_memory *const given[3],
                                   struct kiln_err *err)
{
    b->is_given = true;
    b->largest = 1;
    for (int i = 0; i < 3; i++) {
        if (!given[i] || kiln_memory_bytes(given[i]) < b->bytes[i])
            return kiln_fail(err, KILN_INVALID,
                             "tensor %c is not given or smaller than %llu bytes: give all three "
                             "tensors, or none",
                             "xwy"[i], (unsigned long long)b -> bytes[i]);
        b->checked[i] = b->timed[i] = given[i];
    }
    enum kiln_code rc = finish_stream(b, err);
    for (int i = 0; i < 3 && !rc; i++) {
        double largest = 1;
        if (i != b->output)
            rc = read_largest(b, i, &largest, err);
        b->largest *= largest;
    }
    if (!rc && !(b->largest <= __DBL_MAX__))
        return kiln_fail(err, KILN_INVALID,
                         "a given tensor contains elements that are not numbers");
    if (!(b->largest > 0))
        b->largest = 1; /* all operands are zero, so any bound holds */
    return rc;
}

enum kiln_code bench_create(const struct bench_options *options, struct bench **ret_bench,
                            struct kiln_err *err)
{
    struct kiln_error e;
    if (options->problem->type > TYPE_BFLOAT16)
        return kiln_fail(err, KILN_UNSUPPORTED, "find and tune need a floating-point type, not %s",
                         data_type_name((enum data_type)options->problem->type));
    __attribute__((cleanup(bench_auto))) struct bench *b = calloc(1, sizeof(*b));
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to measure with");
    b->device = options->device;
    b->stream = options->stream;
    b->pace = options->pace;
    b->problem = *options->problem;
    measure_tensors(b);
    bool is_given = options->given[0] || options->given[1] || options->given[2];
    enum kiln_code rc = is_given ? take_tensors(b, options->given, err) : make_tensors(b, err);
    if (!rc)
        rc = error_take(kiln_event_create(b->device, &b->begin, &e), &e, err);
    if (!rc)
        rc = error_take(kiln_event_create(b->device, &b->end, &e), &e, err);
    if (!rc)
        *ret_bench = KILN_TAKE(b);
    return rc ? kiln_while(err, "preparing to measure on %s", kiln_device_name(options->device))
              : KILN_OK;
}

/* ---- running ---- */

bool bench_is_alive(struct bench *bench)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    uint8_t byte = 0;
    return finish_stream(bench, &ignored) == KILN_OK &&
           memory_read(bench->checked[bench->output], &byte, 1, bench->stream, &ignored) == KILN_OK;
}

static enum kiln_code launch_subject(const struct subject *s, struct kiln_memory *const memories[3],
                                     struct kiln_err *err)
{
    struct kiln_error e;
    const struct kiln_tensors tensors = { .size = sizeof(tensors),
                                          .x = memories[KILN_TENSOR_X],
                                          .w = memories[KILN_TENSOR_W],
                                          .y = memories[KILN_TENSOR_Y],
                                          .workspace = kiln_plan_workspace(s->plan)
                                                           ? s->bench->workspace
                                                           : NULL };
    return error_take(kiln_run_launch(s->run, &tensors, s->bench->stream, &e), &e, err);
}

static enum kiln_code launch_many(struct subject *s, unsigned launches, double *ret_ms,
                                  struct kiln_err *err)
{
    struct bench *b = s->bench;
    struct kiln_error e;
    enum kiln_code rc = error_take(kiln_event_record(b->begin, b->stream, &e), &e, err);
    for (unsigned i = 0; i < launches && !rc; i++)
        rc = launch_subject(s, b->timed, err);
    if (!rc)
        rc = error_take(kiln_event_record(b->end, b->stream, &e), &e, err);
    if (!rc)
        rc = error_take(kiln_event_elapsed(b->begin, b->end, ret_ms, &e), &e, err);
    if (!rc && !(*ret_ms >= 0 && *ret_ms <= __DBL_MAX__))
        rc = kiln_fail(err, KILN_GPU_FAULT, "the device's clock measured %g ms", *ret_ms);
    return rc;
}

static enum kiln_code launch_timed(void *context, unsigned launches, double *ret_ms,
                                   struct kiln_err *err)
{
    struct subject *s = context;
    uint64_t began = clock_monotonic_ns();
    enum kiln_code rc = launch_many(s, launches, ret_ms, err);
    pace_rest(s->bench->pace, began);
    return rc;
}

enum kiln_code subject_warm_up(struct subject *subject, struct kiln_err *err)
{
    double unused;
    return launch_many(subject, 1, &unused, err);
}

enum kiln_code subject_time(struct subject *subject, const struct timing_limits *limits,
                            struct timing *ret_timing, struct kiln_err *err)
{
    const struct timing_source source = { .launch = launch_timed, .context = subject };
    return timing_take(&source, limits, ret_timing, err);
}

static enum kiln_code run_checked(struct subject *s, void *to, struct kiln_err *err)
{
    struct bench *b = s->bench;
    struct kiln_error e;
    struct kiln_memory *out = b->checked[b->output];
    size_t size = data_type_size((enum data_type)b->problem.type);
    uint64_t began = clock_monotonic_ns();
    enum kiln_code rc = error_take(kiln_memory_fill(out, POISON, b->stream, &e), &e, err);
    if (!rc && kiln_plan_workspace(s->plan))
        rc = error_take(kiln_memory_fill(b->workspace, POISON, b->stream, &e), &e, err);
    if (!rc)
        rc = launch_subject(s, b->checked, err);
    if (!rc)
        rc = finish_stream(b, err);
    if (!rc)
        rc = memory_read(out, to, b->compared * size, b->stream, err);
    pace_rest(b->pace, began);
    return rc;
}

enum kiln_code subject_check(struct subject *subject, uint64_t *ret_checked, struct kiln_err *err)
{
    struct bench *b = subject->bench;
    enum kiln_code rc = run_checked(subject, b->got, err);
    if (rc)
        return rc;
    const struct agreement agreement = agreement_of(&b->problem, subject->is_winograd, b->largest);
    const struct disagreement d = operands_compare(&agreement, b->got, b->want, b->compared);
    if (d.count > 0)
        return kiln_fail(err, KILN_CORRUPT,
                         "wrong result: %llu of %llu elements differ from those of " BENCH_REFERENCE
                         "; the first is number %llu with %.9g instead of %.9g",
                         (unsigned long long)d.count, (unsigned long long)b->compared,
                         (unsigned long long)d.first, d.got, d.want);
    *ret_checked = b->compared;
    return KILN_OK;
}

enum kiln_code bench_refer(struct bench *bench, struct kiln_plan *plan, struct kiln_err *err)
{
    size_t size = data_type_size((enum data_type)bench->problem.type);
    struct subject *subject = NULL;
    bench->want = malloc(bench->compared * size);
    bench->got = malloc(bench->compared * size);
    enum kiln_code rc = KILN_OK;
    if (!bench->want || !bench->got)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for results to compare");
    if (!rc)
        rc = subject_create(bench, plan, /* is_winograd= */ false, &subject, err);
    if (!rc)
        rc = run_checked(subject, bench->want, err);
    if (!rc && !(operands_largest((enum data_type)bench->problem.type, bench->want,
                                  bench->compared) <= __DBL_MAX__))
        rc = kiln_fail(err, KILN_GPU_FAULT, "its result has elements that are not numbers");
    subject_destroy(subject);
    return rc ? kiln_while(err, "running the reference, " BENCH_REFERENCE) : KILN_OK;
}

/* ---- subjects ---- */

/* Enlarges the workspace to at least |bytes|.  If there is too little memory, frees the old
 * workspace first.  If this does not help, allocates the old size again, because the existing
 * subjects need it. */
static enum kiln_code ensure_workspace(struct bench *b, uint64_t bytes, struct kiln_err *err)
{
    struct kiln_error e, ignored;
    struct kiln_memory *larger = NULL;
    uint64_t old_bytes = b->workspace ? kiln_memory_bytes(b->workspace) : 0;
    if (bytes <= old_bytes)
        return KILN_OK;
    enum kiln_code code = check_memory(b, bytes, err);
    if (code)
        return kiln_while(err, "workspace");
    int rc = kiln_memory_create(b->device, bytes, &larger, &e);
    if (rc == KILN_E_NO_MEMORY && old_bytes) {
        kiln_memory_destroy(KILN_TAKE(b->workspace));
        rc = kiln_memory_create(b->device, bytes, &larger, &e);
        if (rc)
            (void)kiln_memory_create(b->device, old_bytes, &larger, &ignored);
    }
    if (larger) {
        kiln_memory_destroy(b->workspace);
        b->workspace = larger;
    }
    return error_take(rc, &e, err) ? kiln_while(err, "workspace") : KILN_OK;
}

enum kiln_code subject_create(struct bench *bench, struct kiln_plan *plan, bool is_winograd,
                              struct subject **ret_subject, struct kiln_err *err)
{
    struct kiln_error e;
    struct subject *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a run");
    *s =
        (struct subject){ .bench = bench, .plan = kiln_plan_ref(plan), .is_winograd = is_winograd };
    enum kiln_code rc = ensure_workspace(bench, kiln_plan_workspace(plan), err);
    if (!rc)
        rc = error_take(kiln_run_create(bench->device, plan, &s->run, &e), &e, err);
    if (rc)
        subject_destroy(s);
    else
        *ret_subject = s;
    return rc;
}

void subject_destroy(struct subject *subject)
{
    if (!subject)
        return;
    kiln_run_destroy(subject->run);
    kiln_plan_unref(subject->plan);
    free(subject);
}

struct kiln_plan *subject_plan(const struct subject *subject) { return subject->plan; }
