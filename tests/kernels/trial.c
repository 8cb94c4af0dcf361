/* SPDX-License-Identifier: MIT */
#include "tests/kernels/trial.h"

#include "cli/driver/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fills |data| with values from -1 to 1 that have 30 significant bits, so that every type must
 * round them. */
static void fill_general(uint32_t type, void *data, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        storage_store(type, data, i, (double)(seed >> 34) / (1 << 29) - 1);
    }
}

static bool fill(struct trial *trial, int which, enum trial_data data, uint64_t seed)
{
    uint32_t type = trial->problem.type;
    struct opencl_tensor *tensor = &trial->tensors[which];
    uint64_t count = trial->elements[which];
    tensor->size = (count + GUARD) * storage_size(type);
    tensor->data = malloc(tensor->size);
    if (!tensor->data)
        return false;
    memset(tensor->data, 0xff, tensor->size);
    if (which != trial->output && data == DATA_EXACT)
        storage_fill(type, tensor->data, count, seed * TENSORS + (uint64_t)which);
    else if (which != trial->output)
        fill_general(type, tensor->data, count, seed * TENSORS + (uint64_t)which);
    return true;
}

/* Allocates the workspace, and sets all of its bits: read as any type, it is full of NaNs. */
static bool add_workspace(struct trial *trial)
{
    struct opencl_tensor *workspace = &trial->tensors[OPENCL_WORKSPACE];
    if (trial->solution.workspace_size == 0)
        return true;
    workspace->size = trial->solution.workspace_size + GUARD;
    workspace->data = malloc(workspace->size);
    if (workspace->data)
        memset(workspace->data, 0xff, workspace->size);
    return workspace->data != NULL;
}

bool trial_init(struct trial *trial, const struct problem *problem, const struct target *target,
                const struct trial_options *options)
{
    static const int outputs[] = { KILN_TENSOR_Y, KILN_TENSOR_X, KILN_TENSOR_W };
    struct kiln_err err = KILN_ERR_INIT;
    memset(trial, 0, sizeof(*trial));
    if (solver_solve(problem, target, &options->choice, &trial->solution, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    trial->problem = public_problem(problem);
    trial->output = outputs[problem->direction];
    trial->quantum = options->data == DATA_EXACT ? STORAGE_QUANTUM : 0;
    trial->elements[KILN_TENSOR_X] = problem_x_elements(problem);
    trial->elements[KILN_TENSOR_W] = problem_w_elements(problem);
    trial->elements[KILN_TENSOR_Y] = problem_y_elements(problem);
    for (int i = 0; i < TENSORS; i++)
        if (!fill(trial, i, options->data, options->seed))
            return false;
    return add_workspace(trial);
}

void trial_done(struct trial *trial)
{
    for (int i = 0; i < OPENCL_MEMORIES; i++)
        free(trial->tensors[i].data);
}

bool trial_run(struct trial *trial, struct opencl_device *device, struct opencl_kernels *kernels)
{
    struct opencl_tensor *output = &trial->tensors[trial->output];
    struct opencl_tensor *workspace = &trial->tensors[OPENCL_WORKSPACE];
    memset(output->data, 0xff, output->size);
    if (workspace->size)
        memset(workspace->data, 0xff, workspace->size);
    return opencl_run(device, kernels, &trial->solution, trial->tensors);
}

bool trial_build_and_run(struct trial *trial, struct opencl_device *device,
                         enum opencl_effort effort)
{
    struct opencl_kernels *kernels = opencl_build(device, &trial->solution, effort);
    bool ran = kernels && trial_run(trial, device, kernels);
    opencl_kernels_destroy(kernels);
    return ran;
}

static double *widened(const struct trial *trial, int which)
{
    double *values = malloc(trial->elements[which] * sizeof(double));
    if (values)
        storage_widen(trial->problem.type, trial->tensors[which].data, trial->elements[which],
                      values);
    return values;
}

static bool is_untouched(const struct opencl_tensor *tensor, size_t from)
{
    const unsigned char *bytes = tensor->data;
    for (size_t at = from; at < tensor->size; at++)
        if (bytes[at] != 0xff)
            return false;
    return true;
}

static bool guards_are_untouched(const struct trial *trial)
{
    size_t element = storage_size(trial->problem.type);
    bool untouched =
        is_untouched(&trial->tensors[OPENCL_WORKSPACE], trial->solution.workspace_size);
    for (int i = 0; i < TENSORS; i++)
        untouched &= is_untouched(&trial->tensors[i], trial->elements[i] * element);
    return untouched;
}

static void say_which(const struct trial *trial, const char *what)
{
    char config[PERF_CONFIG_TEXT_MAX];
    perf_config_write(&trial->solution.config, config);
    fprintf(stderr, "%s: %s %s [%s]\n  %s\n", what, trial->solution.solver->name,
            trial->solution.kernels[0].name, config, trial->solution.programs[0].options);
}

static void complain(const struct trial *trial, const struct reference_verdict *verdict)
{
    say_which(trial, "wrong");
    fprintf(stderr, "  %llu elements of %llu; [%llu] is %.9g, should be %.9g +- %.3g\n",
            (unsigned long long)verdict->wrong, (unsigned long long)trial->elements[trial->output],
            (unsigned long long)verdict->index, verdict->got, verdict->want, verdict->bound);
}

bool trial_is_right(struct trial *trial)
{
    double *values[TENSORS] = { widened(trial, 0), widened(trial, 1), widened(trial, 2) };
    double *magnitude = malloc(trial->elements[trial->output] * sizeof(double));
    double *want = values[trial->output];
    struct reference_tensors tensors = { .x = values[KILN_TENSOR_X],
                                         .w = values[KILN_TENSOR_W],
                                         .y = values[KILN_TENSOR_Y],
                                         .result = want,
                                         .magnitude = magnitude };
    struct reference_verdict verdict = { .wrong = 1 };
    char config[PERF_CONFIG_TEXT_MAX];
    perf_config_write(&trial->solution.config, config);
    struct rounding rounding =
        rounding_of(&trial->problem, trial->solution.solver->name, config, trial->quantum);
    if (values[0] && values[1] && values[2] && magnitude &&
        reference_run(&trial->problem, &tensors, 2, NULL) == KILN_E_OK)
        verdict = reference_compare(&trial->problem, trial->tensors[trial->output].data, want,
                                    magnitude, &rounding);
    if (verdict.wrong)
        complain(trial, &verdict);
    for (int i = 0; i < TENSORS; i++)
        free(values[i]);
    free(magnitude);
    if (!guards_are_untouched(trial)) {
        say_which(trial, "written behind a memory");
        return false;
    }
    return verdict.wrong == 0;
}
