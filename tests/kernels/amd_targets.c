/* SPDX-License-Identifier: MIT */
/*
 * Every solver, direction and type built for the AMD targets, by the compilers that kilnd takes for
 * them: what a solver says it solves compiles, the kernels that a plan launches are in its objects,
 * and those of default configs keep everything in registers.  Prints what each kernel takes.
 *
 *     amd_targets [TARGET]...
 */
#include "common/target.h"
#include "engine/compile/code_object.h"
#include "engine/solver/solver.h"
#include "tests/kernels/problem_for_reference.h"
#include "tests/support/amdgpu_notes.h"
#include "tests/support/daemon_process.h"

#include <kiln/kiln.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROBLEMS_MOST 32u
#define TIMEOUT_MS 600000
#define OBJDUMP "llvm-objdump-19"

static const struct {
    const char *name;
    const char *matrix_cores; /* how their instructions begin; NULL: it has none */
} targets[] = {
    { "gfx906", NULL },       { "gfx908", "v_mfma_" }, { "gfx90a", "v_mfma_" },
    { "gfx942", "v_mfma_" },  { "gfx1030", NULL },     { "gfx1100", "v_wmma_" },
    { "gfx1201", "v_wmma_" },
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

static const struct shape {
    const char *name;
    uint32_t c, k, groups, filter, stride;
    bool every_type;   /* else fp32 and fp16 */
    bool every_solver; /* that applies; else those that are likely the fastest */
} shapes[] = {
    { "3x3", 64, 64, 1, 3, 1, true, true },          { "3x3/2", 128, 128, 1, 3, 2, false, false },
    { "1x1", 64, 128, 1, 1, 1, false, false },       { "7x7/2", 3, 64, 1, 7, 2, false, false },
    { "depthwise", 32, 32, 32, 3, 1, false, false },
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct fixture {
    struct daemon_process daemon;
    struct kiln_client *client;
};

/* One solver on one target. */
struct batch {
    struct fixture *fixture;
    struct target target;
    const struct solver *solver;
    const char *matrix_cores;
    size_t count;
    struct problem problems[PROBLEMS_MOST];
    const struct shape *shapes[PROBLEMS_MOST];
    unsigned bad;
};

/* ---- problems ---- */

static struct problem problem_of(const struct shape *shape, enum direction direction,
                                 enum data_type type)
{
    uint32_t layout = type == TYPE_FLOAT32 ? LAYOUT_CHANNELS_FIRST : LAYOUT_CHANNELS_LAST;
    return (struct problem){ .direction = direction,
                             .spatial_dims = 2,
                             .type = type,
                             .x_layout = layout,
                             .w_layout = layout,
                             .y_layout = layout,
                             .n = 8,
                             .c = shape->c,
                             .k = shape->k,
                             .groups = shape->groups,
                             .in = { 1, 28, 28 },
                             .filter = { 1, shape->filter, shape->filter },
                             .pad = { 0, shape->filter / 2, shape->filter / 2 },
                             .stride = { 1, shape->stride, shape->stride },
                             .dilation = { 1, 1, 1 } };
}

static bool is_wanted(const struct batch *b, const struct shape *shape, const struct problem *p)
{
    return b->solver->applies(p, &b->target) &&
           (shape->every_solver || solver_choose(p, &b->target) == b->solver);
}

static void add_problems(struct batch *b, const struct shape *shape)
{
    for (unsigned type = 0; type <= (shape->every_type ? TYPE_BFLOAT16 : TYPE_FLOAT16); type++) {
        for (unsigned direction = 0; direction < 3; direction++) {
            struct problem p = problem_of(shape, (enum direction)direction, (enum data_type)type);
            if (!is_wanted(b, shape, &p))
                continue;
            assert_true(b->count < PROBLEMS_MOST);
            b->shapes[b->count] = shape;
            b->problems[b->count++] = p;
        }
    }
}

/* ---- one plan ---- */

struct search {
    struct batch *batch;
    const char *what;   /* "F fp16 3x3" */
    const char *kernel; /* that is launched */
    const char *toolchain;
    unsigned found;
};

static void look_at_kernel(void *context, const struct amdgpu_kernel *k)
{
    struct search *s = context;
    if (!bytes_equal_text(k->name, s->kernel))
        return;
    s->found++;
    bool in_registers = k->vgpr_spills + k->sgpr_spills + k->scratch == 0;
    s->batch->bad += !in_registers;
    printf("%-8s %-7s %-16s %-16s %-44s VGPRs %3u AGPRs %3u SGPRs %3u LDS %6u scratch %u spills "
           "%u VGPRs %u SGPRs%s\n",
           s->batch->target.text, s->toolchain, s->batch->solver->name, s->what, s->kernel,
           (unsigned)k->vgprs, (unsigned)k->agprs, (unsigned)k->sgprs, (unsigned)k->lds,
           (unsigned)k->scratch, (unsigned)k->vgpr_spills, (unsigned)k->sgpr_spills,
           in_registers ? "" : "  BAD");
}

static void complain(struct batch *b, const char *what, const char *why)
{
    printf("%s %s %s: %s\n", b->target.text, b->solver->name, what, why);
    b->bad++;
}

static void write_object(const char *path, struct kiln_kernel *kernel)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(kiln_kernel_data(kernel), 1, kiln_kernel_size(kernel), file),
                     kiln_kernel_size(kernel));
    assert_int_equal(fclose(file), 0);
}

/* The disassembler, with its output in |ret_output|. */
static pid_t start_objdump(const char *path, FILE **ret_output)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        execlp(OBJDUMP, OBJDUMP, "-d", path, NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    close(fds[1]);
    *ret_output = fdopen(fds[0], "r");
    assert_non_null(*ret_output);
    return pid;
}

/* Lines of the disassembly that begin with |instruction|. */
static unsigned count_instructions(struct fixture *f, struct kiln_kernel *kernel,
                                   const char *instruction)
{
    char path[192], line[1024];
    unsigned count = 0;
    FILE *output = NULL;
    snprintf(path, sizeof(path), "%s/object", f->daemon.folder);
    write_object(path, kernel);
    pid_t pid = start_objdump(path, &output);
    while (fgets(line, sizeof(line), output))
        count += strncmp(line + strspn(line, " \t"), instruction, strlen(instruction)) == 0;
    fclose(output);
    assert_int_equal(wait_program(pid), 0);
    return count;
}

static void look_at_launch(struct batch *b, struct kiln_plan *plan, unsigned index,
                           const char *what)
{
    struct kiln_plan_launch launch = { .size = sizeof(launch) };
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(kiln_plan_launch(plan, index, &launch, NULL), KILN_E_OK);
    struct kiln_kernel *kernel = kiln_plan_object(plan, launch.object);
    struct bytes object = bytes_of(kiln_kernel_data(kernel), kiln_kernel_size(kernel));
    struct search s = { b, what, launch.kernel, kiln_plan_toolchain(plan), 0 };
    if (code_object_check(object, &b->target, &err))
        complain(b, what, err.text);
    else if (amdgpu_kernels(object, look_at_kernel, &s) == SIZE_MAX)
        complain(b, what, "its metadata cannot be read");
    else if (s.found != 1)
        complain(b, what, launch.kernel);
}

static bool is_for_matrix_cores(const char *kernel)
{
    return strstr(kernel, "_mma_") || strstr(kernel, "_mfma_");
}

/* What multiplies 16-bit matrices does it with the target's instructions for that. */
static void look_for_matrix_cores(struct batch *b, struct kiln_plan *plan, const char *what)
{
    unsigned kernels = 0;
    for (unsigned i = 0; i < kiln_plan_launch_count(plan); i++) {
        struct kiln_plan_launch launch = { .size = sizeof(launch) };
        assert_int_equal(kiln_plan_launch(plan, i, &launch, NULL), KILN_E_OK);
        if (!is_for_matrix_cores(launch.kernel))
            continue;
        unsigned count =
            count_instructions(b->fixture, kiln_plan_object(plan, launch.object), b->matrix_cores);
        printf("%s %s %s: %u %s instructions\n", b->target.text, launch.kernel, what, count,
               b->matrix_cores);
        kernels += count > 0;
    }
    if (kernels == 0)
        complain(b, what, "does without the matrix cores");
}

static int take_plan(void *context, size_t index, struct kiln_plan *plan,
                     const struct kiln_error *err)
{
    struct batch *b = context;
    const struct problem *p = &b->problems[index];
    char what[64], why[1024];
    snprintf(what, sizeof(what), "%s %s %s", direction_name((enum direction)p->direction),
             data_type_name((enum data_type)p->type), b->shapes[index]->name);
    if (!plan) {
        snprintf(why, sizeof(why), "%.400s %.500s", err->text, err->log);
        complain(b, what, why);
        return 0;
    }
    for (unsigned i = 0; i < kiln_plan_launch_count(plan); i++)
        look_at_launch(b, plan, i, what);
    bool is_gemm = strcmp(b->solver->name, "ConvImplicitGemm") == 0;
    if (b->matrix_cores && is_gemm && p->type != TYPE_FLOAT32)
        look_for_matrix_cores(b, plan, what);
    return 0;
}

static unsigned build(struct fixture *f, const struct solver *solver, const char *target,
                      const char *matrix_cores)
{
    struct batch b = { .fixture = f, .solver = solver, .matrix_cores = matrix_cores };
    struct kiln_problem problems[PROBLEMS_MOST];
    struct kiln_err err = KILN_ERR_INIT;
    struct kiln_error failure = { .code = 0 };
    must(target_parse(bytes_of_text(target), &b.target, &err), err);
    for (size_t i = 0; i < SHAPES; i++)
        add_problems(&b, &shapes[i]);
    if (b.count == 0)
        fail_msg("no shape here is for %s on %s", solver->name, target);
    for (size_t i = 0; i < b.count; i++)
        problems[i] = problem_for_reference(&b.problems[i]);
    struct kiln_plan_options options = { .size = sizeof(options),
                                         .target = target,
                                         .solver = solver->name };
    must(kiln_plan_batch(f->client, problems, b.count, &options, TIMEOUT_MS, take_plan, &b,
                         &failure),
         failure);
    return b.bad;
}

static void every_solver_builds(void **state)
{
    const size_t *which = *state;
    static struct fixture f;
    unsigned bad = 0;
    struct kiln_client_options options = { .size = sizeof(options), .timeout_ms = TIMEOUT_MS };
    struct kiln_error err;
    daemon_process_init(&f.daemon);
    daemon_process_start(&f.daemon);
    options.socket_path = f.daemon.socket;
    must(kiln_client_open(&options, &f.client, &err), err);
    for (size_t i = 0; solvers[i]; i++)
        bad += build(&f, solvers[i], targets[*which].name, targets[*which].matrix_cores);
    kiln_client_close(f.client);
    daemon_process_remove(&f.daemon);
    assert_int_equal(bad, 0);
}

static bool is_asked_for(const char *target, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], target) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    static size_t indices[TARGETS];
    static char names[TARGETS][64];
    struct CMUnitTest tests[TARGETS];
    size_t count = 0;
    for (size_t i = 0; i < TARGETS; i++) {
        if (!is_asked_for(targets[i].name, argc, argv))
            continue;
        indices[i] = i;
        snprintf(names[i], sizeof(names[i]), "every_solver_builds_for_%s", targets[i].name);
        tests[count++] =
            (struct CMUnitTest){ names[i], every_solver_builds, NULL, NULL, &indices[i] };
    }
    int failed = _cmocka_run_group_tests("amd_targets", tests, count, NULL, NULL);
    return count == 0 ? 2 : failed;
}
