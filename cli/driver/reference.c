/* SPDX-License-Identifier: MIT */
#include "cli/driver/reference.h"

#include "cli/driver/storage.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number of outputs in a chunk; a thread takes one chunk at a time.  Smaller chunks let all threads
 * end at about the same time.  Larger chunks cost fewer atomic operations. */
#define CHUNK 256u
#define THREADS_MAX 64u

/* OUTER is n for x and y, and k for w. */
enum axis { OUTER, CHANNEL, DEPTH, HEIGHT, WIDTH, AXES };

struct tensor {
    double *data; /* owned if pack_tensor allocated it; otherwise borrowed */
    uint64_t extent[AXES];
    uint64_t stride[AXES];
};

struct sum {
    double value, magnitude;
};

struct job {
    const struct kiln_problem *problem;
    struct tensor x, w, y;
    const struct tensor *output;
    double *magnitude;
    /* The order in which outputs are visited, slowest axis first. */
    const enum axis *order;
    struct sum (*element)(const struct job *job, const uint64_t at[AXES]);
    uint64_t count;
    _Atomic uint64_t next;
};

/* Orders of the axes, slowest first.  The first two are the layouts of tensors.  Operands are
 * repacked so that the innermost sums read memory sequentially. */
static const enum axis channels_first[] = { OUTER, CHANNEL, DEPTH, HEIGHT, WIDTH };
static const enum axis channels_last[] = { OUTER, DEPTH, HEIGHT, WIDTH, CHANNEL };
static const enum axis outer_last[] = { DEPTH, HEIGHT, WIDTH, CHANNEL, OUTER };
static const enum axis channel_slowest[] = { CHANNEL, OUTER, DEPTH, HEIGHT, WIDTH };

static void set_strides(struct tensor *t, const enum axis order[AXES])
{
    uint64_t stride = 1;
    for (int i = AXES; i-- > 0;) {
        t->stride[order[i]] = stride;
        stride *= t->extent[order[i]];
    }
}

static struct tensor tensor_of(uint32_t outer, uint32_t channels, const uint32_t spatial[3],
                               uint32_t layout)
{
    struct tensor t = { .extent = { outer, channels, spatial[0], spatial[1], spatial[2] } };
    set_strides(&t, layout == KILN_CHANNELS_LAST ? channels_last : channels_first);
    return t;
}

static uint64_t count_elements(const struct tensor *t)
{
    uint64_t count = 1;
    for (int i = 0; i < AXES; i++)
        count *= t->extent[i];
    return count;
}

static void locate_element(const struct tensor *t, const enum axis order[AXES], uint64_t index,
                           uint64_t ret_at[AXES])
{
    for (int i = AXES; i-- > 0;) {
        ret_at[order[i]] = index % t->extent[order[i]];
        index /= t->extent[order[i]];
    }
}

static uint64_t offset_of(const struct tensor *t, const uint64_t at[AXES])
{
    uint64_t sum = 0;
    for (int i = 0; i < AXES; i++)
        sum += at[i] * t->stride[i];
    return sum;
}

static bool pack_tensor(struct tensor *t, const double *from, const enum axis order[AXES])
{
    struct tensor source = *t;
    uint64_t count = count_elements(t);
    t->data = malloc(count * sizeof(double));
    if (!t->data)
        return false;
    set_strides(t, order);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at[AXES];
        locate_element(t, order, i, at);
        t->data[i] = from[offset_of(&source, at)];
    }
    return true;
}

/* Two doubles.  Every 64-bit machine can multiply or add them in one instruction. */
typedef double doubles __attribute__((vector_size(16)));
typedef int64_t double_bits __attribute__((vector_size(16)));

static doubles load_doubles(const double *from)
{
    doubles v;
    memcpy(&v, from, sizeof(v));
    return v;
}

static doubles absolute_values(doubles v)
{
    const double_bits mask = { INT64_MAX, INT64_MAX };
    return (doubles)((double_bits)v & mask);
}

struct vector {
    const double *data;
    uint64_t step;
};

static void add_dot(struct sum *sum, struct vector a, struct vector b, uint64_t count)
{
    uint64_t i = 0;
    if (a.step == 1 && b.step == 1 && count >= 4) {
        doubles value[2] = { { 0 } }, magnitude[2] = { { 0 } };
        for (; i + 4 <= count; i += 4) {
            for (int half = 0; half < 2; half++) {
                doubles product =
                    load_doubles(a.data + i + 2 * half) * load_doubles(b.data + i + 2 * half);
                value[half] += product;
                magnitude[half] += absolute_values(product);
            }
        }
        value[0] += value[1];
        magnitude[0] += magnitude[1];
        sum->value += value[0][0] + value[0][1];
        sum->magnitude += magnitude[0][0] + magnitude[0][1];
    }
    for (; i < count; i++) {
        double product = a.data[i * a.step] * b.data[i * b.step];
        sum->value += product;
        sum->magnitude += fabs(product);
    }
}

static struct vector vector_of(const struct tensor *t, const uint64_t at[AXES], uint64_t step)
{
    return (struct vector){ t->data + offset_of(t, at), step };
}

/* Computes the coordinate of the input that filter tap |tap| multiplies for |output|, along one
 * spatial axis (0 is the depth).  Returns false if that input is in the padding. */
static bool input_at(const struct job *job, int axis, uint64_t output, uint64_t tap,
                     uint64_t *ret_input)
{
    const struct kiln_problem *p = job->problem;
    int64_t input = (int64_t)(output * p->stride[axis] + tap * p->dilation[axis]) - p->pad[axis];
    *ret_input = (uint64_t)input;
    return input >= 0 && input < p->in[axis];
}

/* Computes the coordinate of the output to which |input| contributes through |tap|, along one
 * spatial axis.  Returns false if there is no such output. */
static bool output_at(const struct job *job, int axis, uint64_t input, uint64_t tap,
                      uint64_t *ret_output)
{
    const struct kiln_problem *p = job->problem;
    int64_t from = (int64_t)(input + p->pad[axis]) - (int64_t)(tap * p->dilation[axis]);
    *ret_output = (uint64_t)from / p->stride[axis];
    return from >= 0 && from % p->stride[axis] == 0 && *ret_output < job->y.extent[DEPTH + axis];
}

static uint64_t tap_count(const struct kiln_problem *p)
{
    return (uint64_t)p->filter[0] * p->filter[1] * p->filter[2];
}

static void tap_at(const struct kiln_problem *p, uint64_t index, uint64_t ret_at[AXES])
{
    ret_at[WIDTH] = index % p->filter[2];
    ret_at[HEIGHT] = index / p->filter[2] % p->filter[1];
    ret_at[DEPTH] = index / p->filter[2] / p->filter[1];
}

typedef bool maps(const struct job *job, int axis, uint64_t from, uint64_t tap, uint64_t *ret_to);

static bool map_axes(const struct job *job, maps *map, const uint64_t from[AXES],
                     const uint64_t tap[AXES], uint64_t ret_to[AXES])
{
    for (int i = 0; i < 3; i++)
        if (!map(job, i, from[DEPTH + i], tap[DEPTH + i], &ret_to[DEPTH + i]))
            return false;
    return true;
}

/* Computes y[n,k,o] = sum over taps and the group's input channels c of x[n,c,i] w[k,c,tap] */
static struct sum sum_forward(const struct job *job, const uint64_t at[AXES])
{
    uint64_t group_c = job->w.extent[CHANNEL];
    uint64_t group_k = job->problem->k / job->problem->groups;
    uint64_t in[AXES] = { at[OUTER], at[CHANNEL] / group_k * group_c };
    uint64_t tap[AXES] = { at[CHANNEL] };
    struct sum sum = { 0, 0 };
    for (uint64_t t = 0; t < tap_count(job->problem); t++) {
        tap_at(job->problem, t, tap);
        if (map_axes(job, input_at, at, tap, in))
            add_dot(&sum, vector_of(&job->x, in, job->x.stride[CHANNEL]),
                    vector_of(&job->w, tap, job->w.stride[CHANNEL]), group_c);
    }
    return sum;
}

/* Computes x[n,c,i] = sum over taps and the group's output channels k of y[n,k,o] w[k,c,tap] */
static struct sum sum_backward_data(const struct job *job, const uint64_t at[AXES])
{
    uint64_t group_c = job->w.extent[CHANNEL];
    uint64_t group_k = job->problem->k / job->problem->groups;
    uint64_t first_k = at[CHANNEL] / group_c * group_k;
    uint64_t out[AXES] = { at[OUTER], first_k };
    uint64_t tap[AXES] = { first_k, at[CHANNEL] % group_c };
    struct sum sum = { 0, 0 };
    for (uint64_t t = 0; t < tap_count(job->problem); t++) {
        tap_at(job->problem, t, tap);
        if (map_axes(job, output_at, at, tap, out))
            add_dot(&sum, vector_of(&job->y, out, job->y.stride[CHANNEL]),
                    vector_of(&job->w, tap, job->w.stride[OUTER]), group_k);
    }
    return sum;
}

/* Adds one row of y to the sum of sum_backward_weights.  |in| and |out| are coordinates in x and in
 * that row.  Outputs at both ends, whose input would be in the padding, are skipped. */
static void add_row(const struct job *job, struct sum *sum, uint64_t in[AXES], uint64_t out[AXES],
                    uint64_t tap_width)
{
    uint64_t most = job->y.extent[WIDTH], first = 0, end = most, unused;
    while (first < most && !input_at(job, 2, first, tap_width, &in[WIDTH]))
        first++;
    while (end > first && !input_at(job, 2, end - 1, tap_width, &unused))
        end--;
    out[WIDTH] = first;
    if (first < end)
        add_dot(sum, vector_of(&job->x, in, job->x.stride[WIDTH] * job->problem->stride[2]),
                vector_of(&job->y, out, job->y.stride[WIDTH]), end - first);
}

/* Computes w[k,c,tap] = sum over n and output positions o of y[n,k,o] x[n,c,i] */
static struct sum sum_backward_weights(const struct job *job, const uint64_t at[AXES])
{
    uint64_t group_k = job->problem->k / job->problem->groups;
    uint64_t in[AXES] = { 0, at[OUTER] / group_k * job->w.extent[CHANNEL] + at[CHANNEL] };
    uint64_t out[AXES] = { 0, at[OUTER] };
    uint64_t planes = job->y.extent[OUTER] * job->y.extent[DEPTH];
    struct sum sum = { 0, 0 };
    for (uint64_t row = 0; row < planes * job->y.extent[HEIGHT]; row++) {
        out[HEIGHT] = row % job->y.extent[HEIGHT];
        out[DEPTH] = row / job->y.extent[HEIGHT] % job->y.extent[DEPTH];
        in[OUTER] = out[OUTER] = row / job->y.extent[HEIGHT] / job->y.extent[DEPTH];
        if (input_at(job, 0, out[DEPTH], at[DEPTH], &in[DEPTH]) &&
            input_at(job, 1, out[HEIGHT], at[HEIGHT], &in[HEIGHT]))
            add_row(job, &sum, in, out, at[WIDTH]);
    }
    return sum;
}

static void *compute_outputs(void *context)
{
    struct job *job = context;
    uint64_t first;
    while ((first = atomic_fetch_add(&job->next, CHUNK)) < job->count) {
        for (uint64_t i = first; i < first + CHUNK && i < job->count; i++) {
            uint64_t at[AXES];
            locate_element(job->output, job->order, i, at);
            struct sum sum = job->element(job, at);
            uint64_t where = offset_of(job->output, at);
            job->output->data[where] = sum.value;
            if (job->magnitude)
                job->magnitude[where] = sum.magnitude;
        }
    }
    return NULL;
}

/* Runs the job on |threads| threads, one of which is the calling thread.  If a thread cannot be
 * started, the job only takes longer. */
static void work_on_threads(struct job *job, unsigned threads)
{
    pthread_t ids[THREADS_MAX];
    unsigned started = 0;
    if (threads == 0)
        threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    while (started + 1 < threads && pthread_create(&ids[started], NULL, compute_outputs, job) == 0)
        started++;
    compute_outputs(job);
    while (started > 0)
        pthread_join(ids[--started], NULL);
}

static struct job make_job(const struct kiln_problem *p)
{
    uint32_t out[3];
    for (int i = 0; i < 3; i++) {
        uint64_t window = (uint64_t)p->dilation[i] * (p->filter[i] - 1) + 1;
        out[i] = (uint32_t)((p->in[i] + 2 * (uint64_t)p->pad[i] - window) / p->stride[i] + 1);
    }
    return (struct job){ .problem = p,
                         .x = tensor_of(p->n, p->c, p->in, p->x_layout),
                         .w = tensor_of(p->k, p->c / p->groups, p->filter, p->w_layout),
                         .y = tensor_of(p->n, p->k, out, p->y_layout) };
}

static bool prepare_job(struct job *job, const struct reference_tensors *tensors)
{
    job->order = channel_slowest;
    switch (job->problem->direction) {
    case KILN_FORWARD:
        job->output = &job->y;
        job->element = sum_forward;
        return pack_tensor(&job->x, tensors->x, channels_last) &&
               pack_tensor(&job->w, tensors->w, channels_last);
    case KILN_BACKWARD_DATA:
        job->output = &job->x;
        job->element = sum_backward_data;
        return pack_tensor(&job->y, tensors->y, channels_last) &&
               pack_tensor(&job->w, tensors->w, outer_last);
    default:
        job->order = channels_first;
        job->output = &job->w;
        job->element = sum_backward_weights;
        return pack_tensor(&job->x, tensors->x, channels_first) &&
               pack_tensor(&job->y, tensors->y, channels_first);
    }
}

int reference_run(const struct kiln_problem *problem, const struct reference_tensors *tensors,
                  unsigned threads, struct kiln_error *err)
{
    struct job job = make_job(problem);
    struct tensor *all[] = { &job.x, &job.w, &job.y };
    bool ready = prepare_job(&job, tensors);
    struct tensor *output = all[(job.output == &job.w) + 2 * (job.output == &job.y)];
    if (ready) {
        output->data = tensors->result;
        job.magnitude = tensors->magnitude;
        job.count = count_elements(output);
        work_on_threads(&job, threads);
        output->data = NULL;
    }
    for (int i = 0; i < 3; i++)
        free(all[i]->data);
    if (ready)
        return KILN_E_OK;
    if (err) {
        err->code = KILN_E_NO_MEMORY;
        snprintf(err->text, sizeof(err->text),
                 "cannot compute the reference: out of memory for double-precision copies of "
                 "the tensors; choose a smaller batch (-n), or skip the reference with -V 0");
    }
    return KILN_E_NO_MEMORY;
}

struct reference_verdict reference_compare(const struct kiln_problem *problem, const void *got,
                                           const double *result, const double *magnitude,
                                           const struct rounding *rounding)
{
    struct job job = make_job(problem);
    const struct tensor *outputs[] = { &job.y, &job.x, &job.w };
    uint64_t count = count_elements(outputs[problem->direction]);
    struct reference_verdict verdict = { 0 };
    double worst = -1;
    for (uint64_t i = 0; i < count; i++) {
        double value = storage_load(problem->type, got, i);
        double bound = rounding_bound(rounding, magnitude[i]);
        /* Rounding is monotonic: if a value is within the bounds, the rounded value is within the
         * rounded bounds. */
        bool right = value >= storage_round(problem->type, result[i] - bound) &&
                     value <= storage_round(problem->type, result[i] + bound);
        double error = value == result[i] ? 0 : fabs(value - result[i]);
        double badness = right ? error : isnan(error) ? INFINITY : 1e300 + error;
        verdict.wrong += !right;
        if (right || !isnan(error))
            verdict.error = fmax(verdict.error, error);
        if (badness > worst) {
            worst = badness;
            verdict.index = i;
            verdict.got = value;
            verdict.want = result[i];
            verdict.bound = bound;
        }
    }
    return verdict;
}
