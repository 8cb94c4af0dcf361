/* SPDX-License-Identifier: MIT */
#include "tests/kernels/trial.h"

#include "cli/driver/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kiln_problem problem_for_reference(const struct problem *p)
{
    return (struct kiln_problem){
        .size = sizeof(struct kiln_problem),
        .direction = p->direction,
        .spatial_dims = p->spatial_dims,
        .type = p->type,
        .x_layout = p->x_layout,
        .w_layout = p->w_layout,
        .y_layout = p->y_layout,
        .n = p->n,
        .c = p->c,
        .k = p->k,
        .groups = p->groups,
        .in = { p->in.d, p->in.h, p->in.w },
        .filter = { p->filter.d, p->filter.h, p->filter.w },
        .pad = { p->pad.d, p->pad.h, p->pad.w },
        .stride = { p->stride.d, p->stride.h, p->stride.w },
        .dilation = { p->dilation.d, p->dilation.h, p->dilation.w },
    };
}

/* Thirty bits of significand, so that every type has to round. */
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

bool trial_init(struct trial *trial, const struct problem *problem, const struct target *target,
                enum trial_data data, uint64_t seed)
{
    static const int outputs[] = { KILN_TENSOR_Y, KILN_TENSOR_X, KILN_TENSOR_W };
    struct kiln_err err = KILN_ERR_INIT;
    memset(trial, 0, sizeof(*trial));
    if (solver_solve(problem, target, bytes_of_text(""), &trial->solution, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    trial->problem = problem_for_reference(problem);
    trial->output = outputs[problem->direction];
    trial->quantum = data == DATA_EXACT ? STORAGE_QUANTUM : 0;
    trial->elements[KILN_TENSOR_X] = problem_x_elements(problem);
    trial->elements[KILN_TENSOR_W] = problem_w_elements(problem);
    trial->elements[KILN_TENSOR_Y] = problem_y_elements(problem);
    for (int i = 0; i < TENSORS; i++)
        if (!fill(trial, i, data, seed))
            return false;
    return true;
}

void trial_done(struct trial *trial)
{
    for (int i = 0; i < TENSORS; i++)
        free(trial->tensors[i].data);
}

bool trial_run(struct trial *trial, struct opencl_device *device, struct opencl_kernel *kernel)
{
    struct opencl_tensor *tensors = trial->tensors;
    struct opencl_kernel *own = kernel ? NULL : opencl_build(device, &trial->solution);
    memset(tensors[trial->output].data, 0xff, tensors[trial->output].size);
    bool ran = (kernel || own) &&
               opencl_run(device, kernel ? kernel : own, &trial->solution, &tensors[KILN_TENSOR_X],
                          &tensors[KILN_TENSOR_W], &tensors[KILN_TENSOR_Y]);
    opencl_kernel_destroy(own);
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

static bool guards_are_untouched(const struct trial *trial)
{
    size_t element = storage_size(trial->problem.type);
    for (int i = 0; i < TENSORS; i++) {
        const unsigned char *bytes = trial->tensors[i].data;
        for (size_t at = trial->elements[i] * element; at < trial->tensors[i].size; at++)
            if (bytes[at] != 0xff)
                return false;
    }
    return true;
}

static void complain(const struct trial *trial, const struct reference_verdict *verdict)
{
    fprintf(stderr,
            "wrong: %s %s\n  %llu elements of %llu; [%llu] is %.9g, should be %.9g +- %.3g\n",
            trial->solution.kernels[0].name, trial->solution.programs[0].options,
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
    if (values[0] && values[1] && values[2] && magnitude &&
        reference_run(&trial->problem, &tensors, 2, NULL) == KILN_E_OK)
        verdict = reference_compare(&trial->problem, trial->tensors[trial->output].data, want,
                                    magnitude, trial->quantum);
    if (verdict.wrong)
        complain(trial, &verdict);
    for (int i = 0; i < TENSORS; i++)
        free(values[i]);
    free(magnitude);
    if (!guards_are_untouched(trial)) {
        fprintf(stderr, "written behind a tensor: %s\n", trial->solution.programs[0].options);
        return false;
    }
    return verdict.wrong == 0;
}
