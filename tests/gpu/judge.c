/* SPDX-License-Identifier: MIT */
#include "tests/gpu/judge.h"

#include "cli/driver/reference.h"
#include "cli/driver/storage.h"
#include "tests/gpu/sources.h"
#include "tests/kernels/random_problem.h"
#include "tests/support/public_problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ITEMS 128u /* number of work items in a group, for all kernels of reference.cu */
#define GROUPS_MAX 8192u
/* How much the GPU's reference and the CPU's may differ. Both add in double precision, but in
 * different orders. */
#define REFERENCES_AGREE 1e-12

/* Must have the same layout as the struct in tests/gpu/reference.cu. */
struct gpu_tensor {
    uint32_t extent[5];
    uint64_t stride[5];
};

struct gpu_shape {
    struct gpu_tensor x, w, y;
    uint32_t direction, type, groups, pad[3], stride[3], dilation[3];
};

struct gpu_verdict {
    uint64_t wrong, first, error;
};

static const char *const kernel_names[JUDGE_KERNELS] = { "fill", "checksum", "reference",
                                                         "compare" };

struct solution_program judge_program(void)
{
    return (struct solution_program){ .name = "reference.cu",
                                      .source = bytes_of(gpu_reference, gpu_reference_size) };
}

enum kiln_code judge_open(struct cuda *cuda, struct bytes object, struct judge *ret_judge,
                          struct kiln_err *err)
{
    *ret_judge = (struct judge){ .cuda = cuda };
    enum kiln_code rc = cuda_load(cuda, object, &ret_judge->module, err);
    for (int i = 0; i < JUDGE_KERNELS && !rc; i++)
        rc = cuda_function(cuda, ret_judge->module, kernel_names[i], &ret_judge->kernels[i], err);
    if (rc)
        return rc;
    int result = cuda->driver.memory_allocate(&ret_judge->scratch, sizeof(struct gpu_verdict));
    return result ? cuda_fail(cuda, result, err, "no memory for a verdict") : KILN_OK;
}

void judge_close(struct judge *judge)
{
    if (judge->scratch)
        judge->cuda->driver.memory_free(judge->scratch);
    if (judge->module)
        judge->cuda->driver.module_unload(judge->module);
    *judge = (struct judge){ .cuda = NULL };
}

/* Launches |items| work items, but not more than GROUPS_MAX groups; the kernels loop over the
 * rest. */
static enum kiln_code launch(struct judge *judge, enum judge_kernel which, uint64_t items,
                             void **arguments, struct kiln_err *err)
{
    uint64_t groups = (items + ITEMS - 1) / ITEMS;
    unsigned grid = (unsigned)(groups < GROUPS_MAX ? groups : GROUPS_MAX);
    int result = judge->cuda->driver.launch(judge->kernels[which], grid, 1, 1, ITEMS, 1, 1, 0, NULL,
                                            arguments, NULL);
    return result ? cuda_fail(judge->cuda, result, err, "cannot launch '%s'", kernel_names[which])
                  : KILN_OK;
}

/* ---- guarded memory ---- */

enum kiln_code guarded_allocate(struct cuda *cuda, uint64_t bytes, struct guarded *ret_memory,
                                struct kiln_err *err)
{
    uint64_t base = 0;
    int result = cuda->driver.memory_allocate(&base, bytes + 2 * (uint64_t)JUDGE_GUARD);
    if (result)
        return cuda_fail(cuda, result, err, "no memory of %llu bytes", (unsigned long long)bytes);
    *ret_memory = (struct guarded){ base + JUDGE_GUARD, bytes };
    return guarded_poison(cuda, ret_memory, err);
}

void guarded_free(struct cuda *cuda, struct guarded *memory)
{
    if (memory->address)
        cuda->driver.memory_free(memory->address - JUDGE_GUARD);
    *memory = (struct guarded){ 0, 0 };
}

enum kiln_code guarded_poison(struct cuda *cuda, const struct guarded *memory, struct kiln_err *err)
{
    int result = cuda->driver.memory_set(memory->address - JUDGE_GUARD, 0xff,
                                         memory->bytes + 2 * (uint64_t)JUDGE_GUARD);
    return result ? cuda_fail(cuda, result, err, "cannot fill memory") : KILN_OK;
}

enum kiln_code guarded_check(struct cuda *cuda, const struct guarded *memory, const char *name,
                             struct kiln_err *err)
{
    unsigned char guards[2][JUDGE_GUARD];
    int result = cuda->driver.copy_out(guards[0], memory->address - JUDGE_GUARD, JUDGE_GUARD);
    if (!result)
        result = cuda->driver.copy_out(guards[1], memory->address + memory->bytes, JUDGE_GUARD);
    if (result)
        return cuda_fail(cuda, result, err, "cannot read the guards of %s", name);
    for (unsigned i = 0; i < JUDGE_GUARD; i++) {
        if (guards[0][JUDGE_GUARD - 1 - i] != 0xff)
            return kiln_fail(err, KILN_CORRUPT, "written %u bytes before %s", i + 1, name);
        if (guards[1][i] != 0xff)
            return kiln_fail(err, KILN_CORRUPT, "written %u bytes behind %s", i, name);
    }
    return KILN_OK;
}

/* ---- shapes ---- */

static struct gpu_tensor tensor_of(uint32_t outer, uint32_t channels, struct extent e,
                                   uint32_t layout)
{
    bool last = layout == LAYOUT_CHANNELS_LAST;
    uint64_t spatial = (uint64_t)e.d * e.h * e.w, step = last ? channels : 1;
    return (struct gpu_tensor){ .extent = { outer, channels, e.d, e.h, e.w },
                                .stride = { channels * spatial, last ? 1 : spatial,
                                            step * e.h * e.w, step * e.w, step } };
}

static struct gpu_shape shape_of(const struct problem *p)
{
    return (struct gpu_shape){ .x = tensor_of(p->n, p->c, p->in, p->x_layout),
                               .w = tensor_of(p->k, p->c / p->groups, p->filter, p->w_layout),
                               .y = tensor_of(p->n, p->k, problem_output(p), p->y_layout),
                               .direction = p->direction,
                               .type = p->type,
                               .groups = p->groups,
                               .pad = { p->pad.d, p->pad.h, p->pad.w },
                               .stride = { p->stride.d, p->stride.h, p->stride.w },
                               .dilation = { p->dilation.d, p->dilation.h, p->dilation.w } };
}

static double terms_of(const struct problem *p)
{
    struct extent out = problem_output(p);
    double taps = (double)p->filter.d * p->filter.h * p->filter.w;
    switch (p->direction) {
    case DIRECTION_FORWARD: return taps * (p->c / p->groups);
    case DIRECTION_BACKWARD_DATA: return taps * (p->k / p->groups);
    default: return (double)p->n * out.d * out.h * out.w;
    }
}

/* For BENCH_EXACT, operands are odd multiples of 2^-bits below 1. Returns the largest |bits| (1 to
 * 4) for which fp32, with its 24 bits, represents all sums of the products exactly. */
static uint32_t exact_bits(const struct problem *p)
{
    double bits = floor((24 - log2(terms_of(p))) / 2);
    return bits < 1 ? 1 : bits > 4 ? 4 : (uint32_t)bits;
}

/* ---- a problem ---- */

static enum kiln_code sum_up(struct judge *judge, const struct guarded *memory, uint64_t *ret_sum,
                             struct kiln_err *err)
{
    struct cuda_driver *driver = &judge->cuda->driver;
    uint64_t address = memory->address, count = memory->bytes / 2;
    void *arguments[] = { &address, &count, &judge->scratch };
    int result = driver->memory_set(judge->scratch, 0, sizeof(*ret_sum));
    enum kiln_code rc = result ? cuda_fail(judge->cuda, result, err, "cannot clear a sum")
                               : launch(judge, JUDGE_CHECKSUM, count, arguments, err);
    if (rc)
        return rc;
    result = driver->copy_out(ret_sum, judge->scratch, sizeof(*ret_sum));
    return result ? cuda_fail(judge->cuda, result, err, "cannot read a sum") : KILN_OK;
}

enum kiln_code bench_fill(struct judge *judge, struct bench *b, enum bench_data data, uint64_t seed,
                          struct kiln_err *err)
{
    uint32_t bits = data == BENCH_EXACT ? exact_bits(&b->problem) : 0;
    enum kiln_code rc = KILN_OK;
    b->quantum = bits ? 1.0 / (double)(1u << 2 * bits) : 0;
    for (int i = 0; i < BENCH_TENSORS && !rc; i++) {
        if (i == (int)b->output)
            continue;
        uint64_t tensor_seed = seed * BENCH_TENSORS + (uint64_t)i;
        void *arguments[] = { &b->tensors[i].address, &b->elements[i], &b->problem.type, &bits,
                              &tensor_seed };
        rc = launch(judge, JUDGE_FILL, b->elements[i], arguments, err);
        if (!rc)
            rc = sum_up(judge, &b->tensors[i], &b->checksums[i], err);
    }
    return rc;
}

enum kiln_code bench_refer(struct judge *judge, struct bench *b, struct kiln_err *err)
{
    struct gpu_shape shape = shape_of(&b->problem);
    uint64_t count = b->elements[b->output], bytes = count * sizeof(double);
    void *arguments[] = { &shape,
                          &b->tensors[BENCH_X].address,
                          &b->tensors[BENCH_W].address,
                          &b->tensors[BENCH_Y].address,
                          &count,
                          &b->want,
                          &b->magnitude };
    int result = b->want ? 0 : judge->cuda->driver.memory_allocate(&b->want, bytes);
    if (!result && !b->magnitude)
        result = judge->cuda->driver.memory_allocate(&b->magnitude, bytes);
    if (result)
        return cuda_fail(judge->cuda, result, err, "no memory for the reference");
    uint64_t items = b->problem.direction == DIRECTION_BACKWARD_WEIGHTS ? count * ITEMS : count;
    enum kiln_code rc = launch(judge, JUDGE_REFERENCE, items, arguments, err);
    return rc ? rc : cuda_finish(judge->cuda, err);
}

enum kiln_code bench_init(struct judge *judge, const struct problem *problem,
                          struct bench *ret_bench, struct kiln_err *err)
{
    static const enum bench_tensor outputs[] = { BENCH_Y, BENCH_X, BENCH_W };
    size_t size = data_type_size((enum data_type)problem->type);
    enum kiln_code rc = KILN_OK;
    *ret_bench =
        (struct bench){ .problem = *problem,
                        .elements = { problem_x_elements(problem), problem_w_elements(problem),
                                      problem_y_elements(problem) },
                        .output = outputs[problem->direction] };
    for (int i = 0; i < BENCH_TENSORS && !rc; i++)
        rc = guarded_allocate(judge->cuda, ret_bench->elements[i] * size, &ret_bench->tensors[i],
                              err);
    if (rc && !judge->cuda->is_lost)
        bench_done(judge, ret_bench);
    return rc;
}

void bench_done(struct judge *judge, struct bench *bench)
{
    for (int i = 0; i < BENCH_TENSORS; i++)
        guarded_free(judge->cuda, &bench->tensors[i]);
    if (bench->want)
        judge->cuda->driver.memory_free(bench->want);
    if (bench->magnitude)
        judge->cuda->driver.memory_free(bench->magnitude);
    bench->want = bench->magnitude = 0;
}

/* ---- the verdict ---- */

static enum kiln_code check_surroundings(struct judge *judge, struct bench *b, struct kiln_err *err)
{
    static const char *const names[] = { "x", "w", "y" };
    enum kiln_code rc = KILN_OK;
    for (int i = 0; i < BENCH_TENSORS && !rc; i++) {
        uint64_t sum = b->checksums[i];
        rc = guarded_check(judge->cuda, &b->tensors[i], names[i], err);
        if (!rc && i != (int)b->output)
            rc = sum_up(judge, &b->tensors[i], &sum, err);
        if (!rc && sum != b->checksums[i])
            rc = kiln_fail(err, KILN_CORRUPT, "the operand %s was written to", names[i]);
    }
    return rc;
}

static enum kiln_code read_element(struct judge *judge, struct bench *b,
                                   const struct rounding *rounding, struct verdict *v,
                                   struct kiln_err *err)
{
    struct cuda_driver *driver = &judge->cuda->driver;
    size_t size = data_type_size((enum data_type)b->problem.type);
    uint32_t bits = 0;
    double magnitude = 0;
    uint64_t offset = v->first * sizeof(double);
    int result = driver->copy_out(&bits, b->tensors[b->output].address + v->first * size, size);
    if (!result)
        result = driver->copy_out(&v->want, b->want + offset, sizeof(double));
    if (!result)
        result = driver->copy_out(&magnitude, b->magnitude + offset, sizeof(double));
    v->got = storage_load(b->problem.type, &bits, 0);
    v->bound = rounding_bound(rounding, magnitude);
    return result ? cuda_fail(judge->cuda, result, err, "cannot read an element") : KILN_OK;
}

static enum kiln_code compare(struct judge *judge, struct bench *b, const struct rounding *rounding,
                              struct gpu_verdict *ret_verdict, struct kiln_err *err)
{
    struct cuda_driver *driver = &judge->cuda->driver;
    uint64_t count = b->elements[b->output];
    struct rounding r = *rounding;
    void *arguments[] = { &b->problem.type, &b->tensors[b->output].address,
                          &b->want,         &b->magnitude,
                          &count,           &r.relative,
                          &r.absolute,      &r.exact_below,
                          &judge->scratch };
    *ret_verdict = (struct gpu_verdict){ .first = UINT64_MAX };
    int result = driver->copy_in(judge->scratch, ret_verdict, sizeof(*ret_verdict));
    enum kiln_code rc = result ? cuda_fail(judge->cuda, result, err, "cannot write a verdict")
                               : launch(judge, JUDGE_COMPARE, count, arguments, err);
    if (!rc)
        rc = cuda_finish(judge->cuda, err);
    if (rc)
        return rc;
    result = driver->copy_out(ret_verdict, judge->scratch, sizeof(*ret_verdict));
    return result ? cuda_fail(judge->cuda, result, err, "cannot read a verdict") : KILN_OK;
}

enum kiln_code bench_verdict(struct judge *judge, struct bench *b, const struct rounding *rounding,
                             struct verdict *ret_verdict, struct kiln_err *err)
{
    struct gpu_verdict gpu;
    *ret_verdict = (struct verdict){ .wrong = 0 };
    enum kiln_code rc = compare(judge, b, rounding, &gpu, err);
    if (rc)
        return rc;
    ret_verdict->wrong = gpu.wrong;
    ret_verdict->first = gpu.first;
    memcpy(&ret_verdict->error, &gpu.error, sizeof(double));
    if (gpu.wrong == 0)
        return check_surroundings(judge, b, err);
    rc = read_element(judge, b, rounding, ret_verdict, err);
    return rc ? rc
              : kiln_fail(err, KILN_CORRUPT,
                          "%llu of %llu elements are wrong; [%llu] is %.9g, should be %.9g +- %.3g",
                          (unsigned long long)gpu.wrong, (unsigned long long)b->elements[b->output],
                          (unsigned long long)gpu.first, ret_verdict->got, ret_verdict->want,
                          ret_verdict->bound);
}

struct rounding bench_rounding(const struct bench *b, const char *solver, const char *config)
{
    struct kiln_problem public = public_problem(&b->problem);
    return rounding_of(&public, solver, config, b->quantum);
}

/* ---- the reference against itself ---- */

static double *widened(struct judge *judge, const struct bench *b, enum bench_tensor which)
{
    KILN_AUTO(mem) void *raw = malloc(b->tensors[which].bytes);
    double *values = malloc(b->elements[which] * sizeof(double));
    if (raw && values &&
        judge->cuda->driver.copy_out(raw, b->tensors[which].address, b->tensors[which].bytes) == 0)
        storage_widen(b->problem.type, raw, b->elements[which], values);
    return values;
}

static bool agree(const double *cpu, const double *gpu, const double *magnitude, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (!(fabs(cpu[i] - gpu[i]) <= REFERENCES_AGREE * magnitude[i]))
            return false;
    return true;
}

static bool references_agree(struct judge *judge, struct bench *b)
{
    uint64_t count = b->elements[b->output];
    struct kiln_problem public = public_problem(&b->problem);
    KILN_AUTO(mem) double *x = widened(judge, b, BENCH_X);
    KILN_AUTO(mem) double *w = widened(judge, b, BENCH_W);
    KILN_AUTO(mem) double *y = widened(judge, b, BENCH_Y);
    KILN_AUTO(mem) double *cpu = malloc(count * sizeof(double));
    KILN_AUTO(mem) double *magnitude = malloc(count * sizeof(double));
    KILN_AUTO(mem) double *gpu = malloc(count * sizeof(double));
    struct reference_tensors tensors = {
        .x = x, .w = w, .y = y, .result = cpu, .magnitude = magnitude
    };
    if (!x || !w || !y || !cpu || !magnitude || !gpu ||
        reference_run(&public, &tensors, 0, NULL) != KILN_E_OK ||
        judge->cuda->driver.copy_out(gpu, b->want, count * sizeof(double)) != 0)
        return false;
    return agree(cpu, gpu, magnitude, count);
}

enum kiln_code judge_check_itself(struct judge *judge, unsigned count, struct kiln_err *err)
{
    uint64_t state = 1;
    for (unsigned i = 0; i < count; i++) {
        struct problem problem = random_problem(&state, (enum direction)(i % 3));
        struct bench bench;
        enum kiln_code rc = bench_init(judge, &problem, &bench, err);
        if (!rc)
            rc = bench_fill(judge, &bench, i % 2 ? BENCH_GENERAL : BENCH_EXACT, i, err);
        if (!rc)
            rc = bench_refer(judge, &bench, err);
        if (rc)
            return rc;
        bool right = references_agree(judge, &bench);
        bench_done(judge, &bench);
        char line[384];
        problem_to_driver(&problem, line, sizeof(line));
        if (!right)
            return kiln_fail(err, KILN_CORRUPT, "the GPU's reference is wrong at: %s", line);
    }
    return KILN_OK;
}
