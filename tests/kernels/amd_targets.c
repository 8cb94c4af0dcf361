/* SPDX-License-Identifier: MIT */
/* Compiles every solver, direction and type for the AMD targets, with the compilers that kilnd
 * uses. If a solver applies to a problem, its programs must compile, and the objects must contain
 * the kernels that the plan launches. Kernels of the default config must not spill registers.
 * Prints the resources of each kernel.
 *
 *     amd_targets [TARGET|all]... [PROBLEMS [SEED]]
 *
 * Without arguments, it compiles a sample without ConvGeneric: for each solver and family of
 * targets, half of the pairs of direction and type, on one target of the family. The pairs take
 * different targets.
 *
 * PROBLEMS adds that many random problems for each solver, direction and target, alternating
 * between layers as in networks and unusual ones. */
#include "common/target/target.h"
#include "engine/compile/code_object.h"
#include "engine/solver/conv_generic.h"
#include "tests/kernels/random_problem.h"
#include "tests/support/amdgpu_notes.h"
#include "tests/support/daemon_process.h"
#include "tests/support/public_problem.h"

#include <kiln/kiln.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROBLEMS_MAX 64u
/* number of random problems to try; the solver may apply to none of them */
#define DRAWS_MAX 20000u
#define WHAT_MAX 320
#define TIMEOUT_MS 600000
#define OBJDUMP "llvm-objdump-19"

static const struct {
    const char *name;
    /* prefix of the names of the target's matrix instructions; NULL if it has none */
    const char *matrix_cores;
    enum { GCN, CDNA, RDNA } family;
} targets[] = {
    { "gfx906", NULL, GCN },        { "gfx908", "v_mfma_", CDNA }, { "gfx90a", "v_mfma_", CDNA },
    { "gfx942", "v_mfma_", CDNA },  { "gfx1030", NULL, RDNA },     { "gfx1100", "v_wmma_", RDNA },
    { "gfx1201", "v_wmma_", RDNA },
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

/* Bits of types and of directions. MIOpenDriver's -F has the same bits. */
enum { FP32 = 1, FP16 = 2, BF16 = 4 };
enum { F = 1, B = 2, W = 4 };
#define EVERY_SOLVER ""

/* Layers of 28 x 28 pixels. 3-D layers have 6 x 14 x 14 pixels and no stride in depth. */
static const struct shape {
    const char *name;
    uint32_t dims, n, c, k, groups, filter, stride, dilation;
    unsigned types, directions;
    const char *solver; /* NULL means the solver that solver_choose selects */
} shapes[] = {
    { "3x3", 2, 8, 64, 64, 1, 3, 1, 1, FP32 | FP16, F | B | W, EVERY_SOLVER },
    { "3x3, few tiles", 2, 4, 32, 32, 1, 3, 1, 1, BF16, F | B | W, EVERY_SOLVER },
    { "3x3/2", 2, 8, 128, 128, 1, 3, 2, 1, FP32 | FP16, F | B | W, NULL },
    { "1x1", 2, 8, 64, 128, 1, 1, 1, 1, FP32 | FP16, F | B | W, NULL },
    { "7x7/2", 2, 8, 3, 64, 1, 7, 2, 1, FP32 | FP16, F | B | W, NULL },
    { "7x7/2, narrow", 2, 8, 8, 64, 1, 7, 2, 1, FP16, B, "ConvDirectNarrow" },
    { "3x3, few channels of y", 2, 4, 64, 4, 1, 3, 1, 1, FP32, F, "ConvDirectNarrow" },
    { "1x1, few channels of y", 2, 8, 64, 3, 1, 1, 1, 1, FP32, B, "ConvPointwise" },
    { "7x7", 2, 4, 32, 32, 1, 7, 1, 1, FP32, B, "ConvDirectNaive" },
    { "depthwise", 2, 8, 32, 32, 32, 3, 1, 1, FP32 | FP16, F | B | W, NULL },
    { "2 groups, 5x5", 2, 2, 32, 64, 2, 5, 1, 2, FP32, B, NULL },
    { "3x3x3", 3, 2, 32, 32, 1, 3, 1, 1, FP16, F, NULL },
    { "3x3x3", 3, 2, 32, 32, 1, 3, 1, 1, FP32, W, NULL },
    { "3x3x3", 3, 2, 32, 32, 1, 3, 1, 1, FP32, B, "ConvDirectNaive" },
    { "3-D depthwise", 3, 2, 16, 16, 16, 3, 2, 1, FP32, W, NULL },
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct fixture {
    struct daemon_process daemon;
    struct kiln_client *client;
};

struct batch {
    struct fixture *fixture;
    size_t number;
    struct target target;
    const struct solver *solver;
    const char *matrix_cores;
    size_t count;
    struct {
        struct problem problem;
        /* the problem as printed: the shape's name ("3x3"), or all of a random problem */
        char what[WHAT_MAX];
    } trials[PROBLEMS_MAX];
    unsigned solved, bad;
};

/* for each solver, direction and target */
static unsigned random_problems;
static uint64_t seed = 1;
static bool only_a_sample;

static struct problem problem_of(const struct shape *s, uint32_t direction, uint32_t type)
{
    uint32_t layout = type == TYPE_FLOAT32 ? LAYOUT_CHANNELS_FIRST : LAYOUT_CHANNELS_LAST;
    struct problem p = { .direction = direction,
                         .spatial_dims = s->dims,
                         .type = type,
                         .x_layout = layout,
                         .w_layout = layout,
                         .y_layout = layout,
                         .n = s->n,
                         .c = s->c,
                         .k = s->k,
                         .groups = s->groups,
                         .in = { 1, 28, 28 },
                         .filter = { 1, s->filter, s->filter },
                         .stride = { 1, s->stride, s->stride },
                         .dilation = { 1, s->dilation, s->dilation } };
    if (s->dims == 3) {
        p.in = (struct extent){ 6, 14, 14 };
        p.filter.d = s->filter;
        p.dilation.d = s->dilation;
    }
    p.pad = (struct extent){ p.filter.d / 2, p.filter.h / 2, p.filter.w / 2 };
    return p;
}

static bool is_wanted(const struct solver *solver, const struct target *target,
                      const struct shape *shape, const struct problem *p)
{
    if (!solver->applies(p, target))
        return false;
    if (!shape->solver)
        return solver_choose(p, target) == solver;
    return !*shape->solver || strcmp(shape->solver, solver->name) == 0;
}

static bool has(const struct shape *shape, uint32_t direction, uint32_t type)
{
    return (shape->types >> type & 1) && (shape->directions >> direction & 1);
}

/* Returns the first shape with which the solver is tested on |target| in this direction and type,
 * or NULL. */
static const struct shape *first_shape(const struct solver *solver, const struct target *target,
                                       uint32_t direction, uint32_t type)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct problem p = problem_of(&shapes[i], direction, type);
        if (has(&shapes[i], direction, type) && is_wanted(solver, target, &shapes[i], &p))
            return &shapes[i];
    }
    return NULL;
}

/* Returns whether the sample compiles this solver, direction and type on this target. In each
 * family, the sample takes the first target for which there is a shape. The search starts at a
 * different target for each direction and type. */
static bool stands_for_family(const struct batch *b, uint32_t direction, uint32_t type)
{
    size_t members[TARGETS], count = 0;
    for (size_t i = 0; i < TARGETS; i++)
        if (targets[i].family == targets[b->number].family)
            members[count++] = i;
    for (size_t i = 0; i < count; i++) {
        size_t number = members[(i + (direction + type) / 2) % count];
        struct target target;
        struct kiln_err err = KILN_ERR_INIT;
        must(target_parse(bytes_of_text(targets[number].name), &target, &err), err);
        if (first_shape(b->solver, &target, direction, type))
            return number == b->number;
    }
    return false;
}

static void add_problem(struct batch *b, const struct problem *problem, const char *what);

static void add_shape(struct batch *b, const struct shape *shape)
{
    for (uint32_t type = 0; type <= TYPE_BFLOAT16; type++) {
        for (uint32_t direction = 0; direction < 3; direction++) {
            struct problem p = problem_of(shape, direction, type);
            if (has(shape, direction, type) && is_wanted(b->solver, &b->target, shape, &p))
                add_problem(b, &p, shape->name);
        }
    }
}

static void add_sample(struct batch *b)
{
    for (uint32_t type = 0; type <= TYPE_BFLOAT16; type++) {
        for (uint32_t direction = 0; direction < 3; direction++) {
            const struct shape *shape = first_shape(b->solver, &b->target, direction, type);
            bool is_in_sample = (direction + type) % 2 == 0;
            if (!is_in_sample || !shape || !stands_for_family(b, direction, type))
                continue;
            struct problem p = problem_of(shape, direction, type);
            add_problem(b, &p, shape->name);
        }
    }
}

/* Adds a problem like a network's layer if |turn| is even, and an unusual one if it is odd. Adds
 * none if the solver applies to none of DRAWS_MAX random problems. */
static void add_random_problem(struct batch *b, enum direction direction, unsigned turn)
{
    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        struct problem p =
            turn % 2 ? random_problem(&seed, direction) : random_layer(&seed, direction);
        char what[WHAT_MAX];
        if (!b->solver->applies(&p, &b->target))
            continue;
        problem_to_driver(&p, what, sizeof(what));
        add_problem(b, &p, what);
        return;
    }
}

struct search {
    struct batch *batch;
    const char *what; /* "F fp16 3x3" */
    const char *kernel;
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

static unsigned count_instructions(struct fixture *f, struct kiln_kernel *kernel,
                                   const char *instruction)
{
    char path[192], line[1024];
    unsigned count = 0;
    FILE *output = NULL;
    snprintf(path, sizeof(path), "%s/object", f->daemon.directory);
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

/* Reports an error unless at least one kernel that is named after matrix instructions contains such
 * instructions. */
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
    const struct problem *p = &b->trials[index].problem;
    char what[WHAT_MAX + 16], why[1024];
    snprintf(what, sizeof(what), "%s %s %s", direction_name((enum direction)p->direction),
             data_type_name((enum data_type)p->type), b->trials[index].what);
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

static void build(struct batch *b)
{
    struct kiln_problem problems[PROBLEMS_MAX];
    struct kiln_error failure = { .code = 0 };
    struct kiln_plan_options options = { .size = sizeof(options),
                                         .target = b->target.text,
                                         .solver = b->solver->name,
                                         .timeout_ms = TIMEOUT_MS };
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = problems,
                                           .count = b->count,
                                           .options = &options,
                                           .ready = take_plan,
                                           .context = b };
    for (size_t i = 0; i < b->count; i++)
        problems[i] = public_problem(&b->trials[i].problem);
    must(kiln_plan_batch(b->fixture->client, &batch, &failure), failure);
    b->solved += (unsigned)b->count;
    b->count = 0;
}

static void add_problem(struct batch *b, const struct problem *problem, const char *what)
{
    if (b->count == PROBLEMS_MAX)
        build(b);
    b->trials[b->count].problem = *problem;
    snprintf(b->trials[b->count++].what, WHAT_MAX, "%s", what);
}

static unsigned build_all(struct fixture *f, const struct solver *solver, size_t number)
{
    static struct batch b;
    struct kiln_err err = KILN_ERR_INIT;
    b = (struct batch){ .fixture = f, .number = number, .solver = solver };
    b.matrix_cores = targets[number].matrix_cores;
    must(target_parse(bytes_of_text(targets[number].name), &b.target, &err), err);
    if (only_a_sample)
        add_sample(&b);
    for (size_t i = 0; i < SHAPES && !only_a_sample; i++)
        add_shape(&b, &shapes[i]);
    for (unsigned i = 0; i < 3 * random_problems; i++)
        add_random_problem(&b, i % 3, i / 3);
    build(&b);
    if (b.solved == 0 && !only_a_sample)
        fail_msg("no shape here is for %s on %s", solver->name, targets[number].name);
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
    daemon_process_start_in_whole_sandbox(&f.daemon);
    options.socket_path = f.daemon.socket;
    must(kiln_client_open(&options, &f.client, &err), err);
    for (size_t i = 0; solvers[i]; i++)
        bad += build_all(&f, solvers[i], *which);
    if (!only_a_sample)
        bad += build_all(&f, &solver_conv_generic, *which);
    kiln_client_close(f.client);
    daemon_process_remove(&f.daemon);
    assert_int_equal(bad, 0);
}

static bool is_asked_for(const char *target, int count, char **asked)
{
    for (int i = 0; i < count; i++)
        if (strcmp(asked[i], target) == 0 || strcmp(asked[i], "all") == 0)
            return true;
    return count == 0;
}

/* Returns the number of arguments that name targets. Reads PROBLEMS and SEED, which follow the
 * targets. */
static int read_numbers(int argc, char **argv)
{
    int names = 1;
    while (names < argc && !isdigit((unsigned char)argv[names][0]))
        names++;
    if (names < argc)
        random_problems = (unsigned)strtoul(argv[names], NULL, 10);
    if (names + 1 < argc)
        seed = strtoull(argv[names + 1], NULL, 10);
    return names - 1;
}

int main(int argc, char **argv)
{
    static size_t indices[TARGETS];
    static char names[TARGETS][64];
    struct CMUnitTest tests[TARGETS];
    size_t count = 0;
    int asked = read_numbers(argc, argv);
    only_a_sample = argc == 1;
    for (size_t i = 0; i < TARGETS; i++) {
        if (!is_asked_for(targets[i].name, asked, argv + 1))
            continue;
        indices[i] = i;
        snprintf(names[i], sizeof(names[i]), "every_solver_builds_for_%s", targets[i].name);
        tests[count++] =
            (struct CMUnitTest){ names[i], every_solver_builds, NULL, NULL, &indices[i] };
    }
    int failed = _cmocka_run_group_tests("amd_targets", tests, count, NULL, NULL);
    return count == 0 ? 2 : failed;
}
