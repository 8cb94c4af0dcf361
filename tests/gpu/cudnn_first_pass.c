/* SPDX-License-Identifier: MIT */
/* cudnn_first_pass measures what first_pass measures, but with cuDNN in benchmark mode: cuDNN times
 * its algorithms at the first convolution of each shape, and then uses the fastest. Prints one JSON
 * object. */
#include "tests/gpu/cudnn_library.h"
#include "tests/gpu/problems.h"
#include "tests/gpu/started.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPES_MAX 512u
/* about as much workspace as frameworks allow */
#define WORKSPACE_MAX ((uint64_t)1 << 30)
#define DATA 0x3c /* value of every byte of the operands; it makes small numbers in each type */

struct pass {
    struct problem shapes[SHAPES_MAX];
    unsigned launches[SHAPES_MAX];
    unsigned count, layers;
    struct cuda cuda;
    struct cudnn cudnn;
    struct guarded tensors[BENCH_TENSORS], workspace;
};

static enum kiln_code take_layer(void *context, const struct problem *problem, struct kiln_err *err)
{
    struct pass *pass = context;
    unsigned i = 0;
    pass->layers++;
    while (i < pass->count && memcmp(&pass->shapes[i], problem, sizeof(*problem)) != 0)
        i++;
    if (i == SHAPES_MAX)
        return kiln_fail(err, KILN_INVALID, "more than %u shapes", SHAPES_MAX);
    pass->shapes[i] = *problem;
    pass->launches[i]++;
    pass->count += i == pass->count;
    return KILN_OK;
}

static enum kiln_code allocate(struct cuda *cuda, uint64_t bytes, struct guarded *ret_memory,
                               struct kiln_err *err)
{
    int result = cuda->driver.memory_allocate(&ret_memory->address, bytes);
    ret_memory->bytes = bytes;
    if (!result)
        result = cuda->driver.memory_set(ret_memory->address, DATA, bytes);
    return result
               ? cuda_fail(cuda, result, err, "no memory of %llu bytes", (unsigned long long)bytes)
               : KILN_OK;
}

static enum kiln_code allocate_all(struct pass *pass, struct kiln_err *err)
{
    uint64_t most[BENCH_TENSORS] = { 0 };
    enum kiln_code rc = allocate(&pass->cuda, WORKSPACE_MAX, &pass->workspace, err);
    for (unsigned i = 0; i < pass->count; i++) {
        const struct problem *p = &pass->shapes[i];
        const uint64_t elements[BENCH_TENSORS] = { problem_x_elements(p), problem_w_elements(p),
                                                   problem_y_elements(p) };
        for (int t = 0; t < BENCH_TENSORS; t++) {
            uint64_t bytes = elements[t] * data_type_size((enum data_type)p->type);
            most[t] = bytes > most[t] ? bytes : most[t];
        }
    }
    for (int t = 0; t < BENCH_TENSORS && !rc; t++)
        rc = allocate(&pass->cuda, most[t], &pass->tensors[t], err);
    return rc;
}

static enum kiln_code meet_all(struct pass *pass, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (unsigned i = 0; i < pass->count && !rc; i++) {
        struct bench bench = { .problem = pass->shapes[i], .output = BENCH_Y };
        memcpy(bench.tensors, pass->tensors, sizeof(bench.tensors));
        struct cudnn_case c = { .cuda = &pass->cuda,
                                .cudnn = &pass->cudnn,
                                .bench = &bench,
                                .workspace = pass->workspace,
                                .math = CUDNN_EXACT };
        rc = cudnn_meet(&c, pass->launches[i], err);
    }
    return rc ? rc : cuda_finish(&pass->cuda, err);
}

static const char usage[] =
    "Usage: cudnn_first_pass [--batch N] [--type fp32|fp16|bf16] [--layout NCHW|NHWC] FILE\n"
    "Runs the forward problems of FILE (MIOpenDriver command lines) once, in cuDNN's way.\n";

static int which(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    fprintf(stderr, "cudnn_first_pass: '%s' is not understood\n%s", text, usage);
    exit(2);
}

static const char *read_options(struct problem_change *change, int argc, char **argv)
{
    static const char *const types[] = { "fp32", "fp16", "bf16" };
    static const char *const layouts[] = { "NCHW", "NHWC" };
    static const struct option table[] = {
        { "batch", required_argument, NULL, 'n' },
        { "type", required_argument, NULL, 't' },
        { "layout", required_argument, NULL, 'l' },
        { NULL, 0, NULL, 0 },
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (letter) {
        case 'n': change->batch = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 't': change->type = which(optarg, types, 3); break;
        case 'l': change->layout = which(optarg, layouts, 2); break;
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    return argv[optind];
}

int main(int argc, char **argv)
{
    static struct pass pass;
    struct problem_change change = PROBLEM_UNCHANGED;
    struct kiln_err err = KILN_ERR_INIT;
    double begin = started_at(argv);
    change.direction = DIRECTION_FORWARD;
    const char *file = read_options(&change, argc, argv);
    enum kiln_code rc = problems_read(file, &change, take_layer, &pass, &err);
    if (!rc)
        rc = cuda_open(&pass.cuda, &err);
    if (!rc)
        rc = cudnn_open(&pass.cudnn, &err);
    double opened = started_now();
    if (!rc)
        rc = allocate_all(&pass, &err);
    if (!rc)
        rc = meet_all(&pass, &err);
    double end = started_now();
    if (rc) {
        fprintf(stderr, "cudnn_first_pass: %s\n", err.text);
        return 1;
    }
    printf("{\"what\": \"cuDNN %zu\", \"device\": \"%s\", \"layers\": %u, \"shapes\": %u, "
           "\"seconds\": %.4f, \"open_s\": %.4f}\n",
           pass.cudnn.cudnnGetVersion(), pass.cuda.name, pass.layers, pass.count, end - begin,
           opened - begin);
    cudnn_close(&pass.cudnn);
    return 0;
}
