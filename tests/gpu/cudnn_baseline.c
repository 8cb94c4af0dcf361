/* SPDX-License-Identifier: MIT */
/* cudnn_baseline prints cuDNN's best time for each problem, once for each of cuDNN's two
 * interfaces. It measures exactly as gpu_trials does for kiln's solvers: the same operands,
 * warm-up, batches and median. */
#include "tests/gpu/cudnn_library.h"
#include "tests/gpu/problems.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* about as much workspace as frameworks allow */
#define WORKSPACE_MAX ((uint64_t)4 << 30)

/* Largest difference between cuDNN's result and the reference, relative to the usual size of an
 * element. An element is the sum of n products a b with random signs, so its usual size is sum|a b|
 * / sqrt(n). The check only has to detect that cuDNN was given a different problem. Then the
 * results differ by about the usual size. The check must accept all of cuDNN's arithmetic,
 * including Winograd, and TF32 with its operands of 11 bits. Rounding in this arithmetic changes a
 * result by at most a 64th of the usual size. */
#define TOLERANCE (1.0 / 64)

struct baseline {
    struct cuda cuda;
    struct cudnn cudnn;
    struct judge judge;
    struct guarded workspace;
    const char *file, *json_path;
    struct problem_change change;
    enum cudnn_math math;
    bool find, graph, check;
    FILE *json;
    double deadline;
    unsigned count, failed, without;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double terms_of(const struct problem *p)
{
    const struct extent out = problem_output(p);
    double taps = (double)p->filter.d * p->filter.h * p->filter.w;
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS)
        return (double)p->n * out.d * out.h * out.w;
    return taps * ((p->direction == DIRECTION_FORWARD ? p->c : p->k) / p->groups);
}

struct check {
    struct judge *judge;
    struct bench *bench;
};

static enum kiln_code check_result(void *context, struct kiln_err *err)
{
    const struct check *check = context;
    struct rounding rounding = { .relative = TOLERANCE / sqrt(terms_of(&check->bench->problem)),
                                 .absolute = 1e-6,
                                 .exact_below = -1 };
    struct verdict verdict;
    enum kiln_code rc = cuda_finish(check->judge->cuda, err);
    return rc ? rc : bench_verdict(check->judge, check->bench, &rounding, &verdict, err);
}

/* cuDNN may have no engine for a problem. Then the row has the state "none", which is not a
 * failure. */
static const char *state_of(const struct cudnn_best *best)
{
    return best->timing.microseconds > 0 ? "ok" : "none";
}

static void print_row(struct baseline *b, const struct problem *p, const struct cudnn_best *find,
                      const struct cudnn_best *graph)
{
    char text[160];
    problem_label(p, text, sizeof(text));
    const struct cudnn_best *best = find;
    if (find->timing.microseconds == 0 ||
        (graph->timing.microseconds > 0 && graph->timing.microseconds < find->timing.microseconds))
        best = graph;
    double us = best->timing.microseconds;
    printf("%-46s %9.1f us %6.1f TF/s   find %9.1f (%u: %s)   graph %9.1f (%u: %s)\n", text, us,
           us > 0 ? problem_flops(p) / us * 1e-6 : 0, find->timing.microseconds, find->tried,
           find->name, graph->timing.microseconds, graph->tried, graph->name);
    b->without += us == 0;
    if (!b->json)
        return;
    fprintf(b->json, "{");
    problem_write_json(b->json, p);
    json_write_text(b->json, "solver", "cuDNN");
    json_write_text(b->json, "config", best->name);
    json_write_text(b->json, "state", state_of(best));
    json_write_text(b->json, "checked", best->is_checked ? "yes" : "no");
    fprintf(b->json,
            "\"us\": %.3f, \"spread\": %.4f, \"find_us\": %.3f, \"graph_us\": %.3f, "
            "\"workspace\": %llu}\n",
            us, best->timing.spread, find->timing.microseconds, graph->timing.microseconds,
            (unsigned long long)best->workspace);
}

static void print_untimed(struct baseline *b, const struct problem *p, const char *state,
                          const char *why)
{
    char text[160];
    problem_label(p, text, sizeof(text));
    printf("%-46s %s: %s\n", text, state, why);
    if (!b->json)
        return;
    fprintf(b->json, "{");
    problem_write_json(b->json, p);
    json_write_text(b->json, "solver", "cuDNN");
    json_write_text(b->json, "config", "");
    json_write_text(b->json, "state", state);
    json_write_text(b->json, "text", why);
    fprintf(b->json, "\"us\": 0}\n");
}

static enum kiln_code time_problem(struct baseline *b, struct bench *bench, struct kiln_err *err)
{
    struct cudnn_best find = { .tried = 0 }, graph = { .tried = 0 };
    struct check check = { .judge = &b->judge, .bench = bench };
    struct cudnn_case c = { .cuda = &b->cuda,
                            .cudnn = &b->cudnn,
                            .bench = bench,
                            .workspace = b->workspace,
                            .math = bench->problem.allow_tf32 ? CUDNN_DEFAULT : b->math,
                            .check = b->check ? check_result : NULL,
                            .context = &check };
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = b->find ? cudnn_find(&c, &find, &why) : KILN_OK;
    if (rc)
        fprintf(stderr, "%s\n", why.text);
    if (rc == KILN_CORRUPT) { /* cuDNN was given a different problem, so its time means nothing */
        find = (struct cudnn_best){ .tried = find.tried };
        b->failed++;
    }
    why = KILN_ERR_INIT;
    if (b->graph && !b->cuda.is_lost && cudnn_graph(&c, &graph, &why))
        fprintf(stderr, "%s\n", why.text);
    print_row(b, &bench->problem, &find, &graph);
    return b->cuda.is_lost ? kiln_fail(err, KILN_UNAVAILABLE, "the GPU is lost") : KILN_OK;
}

static enum kiln_code measure_problem(struct baseline *b, const struct problem *problem,
                                      struct kiln_err *err)
{
    struct bench bench;
    enum kiln_code rc = bench_init(&b->judge, problem, &bench, err);
    if (rc)
        return rc;
    rc = bench_fill(&b->judge, &bench, BENCH_GENERAL, 1, err);
    if (!rc && b->check)
        rc = bench_refer(&b->judge, &bench, err);
    if (!rc)
        rc = time_problem(b, &bench, err);
    if (!b->cuda.is_lost)
        bench_done(&b->judge, &bench);
    return rc;
}

/* Measures one problem. A failure, such as too little device memory, only ends the program if the
 * GPU is lost. */
static enum kiln_code take_problem(void *context, const struct problem *problem,
                                   struct kiln_err *err)
{
    struct baseline *b = context;
    struct kiln_err why = KILN_ERR_INIT;
    if (b->deadline > 0 && now() > b->deadline) {
        print_untimed(b, problem, "out of time", "");
        return KILN_OK;
    }
    enum kiln_code rc = measure_problem(b, problem, &why);
    b->count++;
    if (!rc)
        return KILN_OK;
    print_untimed(b, problem, "FAILED", why.text);
    b->failed++;
    return b->cuda.is_lost ? kiln_fail(err, rc, "%s", why.text) : KILN_OK;
}

static enum kiln_code open_judge(struct baseline *b, struct kiln_err *err)
{
    struct nvrtc nvrtc;
    struct nvrtc_program program = { .source = judge_program() };
    enum kiln_code rc = nvrtc_open(&nvrtc, err);
    if (rc)
        return rc;
    snprintf(program.target, sizeof(program.target), "%s", b->cuda.target);
    nvrtc_compile(&nvrtc, &program);
    rc = program.object
             ? judge_open(&b->cuda, bytes_of(program.object, program.size), &b->judge, err)
             : kiln_fail(err, KILN_COMPILE_FAILED, "the reference does not compile: %s",
                         program.log ? program.log : "");
    free(program.object);
    free(program.log);
    return rc;
}

static enum kiln_code run(struct baseline *b, struct kiln_err *err)
{
    enum kiln_code rc = cuda_open(&b->cuda, err);
    if (!rc)
        rc = open_judge(b, err);
    if (!rc)
        rc = cudnn_open(&b->cudnn, err);
    if (!rc)
        rc = guarded_allocate(&b->cuda, WORKSPACE_MAX, &b->workspace, err);
    if (rc)
        return rc;
    printf("%s, cuDNN %zu (%s), %s\n", b->cuda.name, b->cudnn.cudnnGetVersion(), b->cudnn.path,
           b->math == CUDNN_DEFAULT ? "its default arithmetic"
                                    : "TF32 only where problems allow it");
    b->json = b->json_path ? fopen(b->json_path, "we") : NULL;
    rc = problems_read(b->file, &b->change, take_problem, b, err);
    if (b->json)
        fclose(b->json);
    return rc;
}

static const char usage[] =
    "Usage: cudnn_baseline --problems FILE [OPTION]...\n"
    "  --problems FILE   MIOpenDriver command lines\n"
    "  --batch N, --type fp32|fp16|bf16|tf32, --layout NCHW|NHWC, --direction F|B|W\n"
    "                    instead of what the lines say\n"
    "  --default-math    let cuDNN use TF32 in all fp32 problems\n"
    "  --no-check        do not compare results with the reference (it takes a second or more)\n"
    "  --find, --graph   by that interface only   --seconds S  begin nothing later than that\n"
    "  --json FILE       one object a line\n";

static int which(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    fprintf(stderr, "cudnn_baseline: '%s' is not understood\n%s", text, usage);
    exit(2);
}

static void take_option(struct baseline *b, int letter, char *value)
{
    static const char *const layouts[] = { "NCHW", "NHWC" };
    static const char *const directions[] = { "F", "B", "W" };
    switch (letter) {
    case 'p': b->file = value; break;
    case 'n': b->change.batch = (uint32_t)strtoul(value, NULL, 10); break;
    case 't': b->change.type = which(value, problem_types, PROBLEM_TYPES); break;
    case 'l': b->change.layout = which(value, layouts, 2); break;
    case 'd': b->change.direction = which(value, directions, 3); break;
    case 'm': b->math = CUDNN_DEFAULT; break;
    case 'c': b->check = false; break;
    case 'f': b->graph = false; break;
    case 'g': b->find = false; break;
    case 'e': b->deadline = now() + strtod(value, NULL); break;
    case 'J': b->json_path = value; break;
    case 'h': fputs(usage, stdout); exit(0);
    default: fputs(usage, stderr); exit(2);
    }
}

int main(int argc, char **argv)
{
    static const struct option table[] = {
        { "problems", required_argument, NULL, 'p' },
        { "batch", required_argument, NULL, 'n' },
        { "type", required_argument, NULL, 't' },
        { "layout", required_argument, NULL, 'l' },
        { "direction", required_argument, NULL, 'd' },
        { "default-math", no_argument, NULL, 'm' },
        { "no-check", no_argument, NULL, 'c' },
        { "find", no_argument, NULL, 'f' },
        { "graph", no_argument, NULL, 'g' },
        { "seconds", required_argument, NULL, 'e' },
        { "json", required_argument, NULL, 'J' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    static struct baseline b = {
        .change = PROBLEM_UNCHANGED, .find = true, .graph = true, .check = true
    };
    struct kiln_err err = KILN_ERR_INIT;
    int letter;
    while ((letter = getopt_long(argc, argv, "", table, NULL)) != -1)
        take_option(&b, letter, optarg);
    if (!b.file) {
        fputs(usage, stderr);
        return 2;
    }
    double begin = now();
    enum kiln_code rc = run(&b, &err);
    if (rc)
        fprintf(stderr, "cudnn_baseline: %s\n", err.text);
    printf("%u problems in %.1f s, %u that cuDNN has nothing for, %u that failed\n", b.count,
           now() - begin, b.without, b.failed);
    cudnn_close(&b.cudnn);
    return rc || b.failed ? 1 : 0;
}
