/* SPDX-License-Identifier: MIT */
#include "cli/driver/tensors.h"

#include "cli/driver/host_memory.h"
#include "cli/driver/storage.h"
#include "common/base/json.h"

#include <string.h>

int tensors_output(const struct kiln_problem *problem)
{
    static const int outputs[] = { [KILN_FORWARD] = KILN_TENSOR_Y,
                                   [KILN_BACKWARD_DATA] = KILN_TENSOR_X,
                                   [KILN_BACKWARD_WEIGHTS] = KILN_TENSOR_W };
    return outputs[problem->direction % 3];
}

static int measure_tensors(const struct kiln_problem *problem, struct tensors *t,
                           struct kiln_error *err)
{
    if (problem->type > KILN_BFLOAT16)
        return cli_fail(
            err, KILN_E_UNSUPPORTED,
            "kiln-driver does not support tensors of 8-bit integers: use conv, convfp16 "
            "or convbfp16");
    int rc = KILN_E_OK;
    t->output = tensors_output(problem);
    for (int i = 0; i < 3 && !rc; i++)
        rc = kiln_problem_tensor(problem, i, &t->elements[i], &t->bytes[i], err);
    return rc;
}

/* Checks that the tensors fit.  The reference needs, in double precision, both operands twice
 * (values and repacked copies), the result and its magnitude.  In addition, one tensor at a time is
 * on the host before it is written to the device. */
static int check_memory(const struct tensors *t, const struct tensors_options *options,
                        struct kiln_error *err)
{
    uint64_t device = options->workspace;
    uint64_t reference = 0;
    uint64_t largest = 0;
    for (int i = 0; i < 3; i++) {
        device += t->bytes[i];
        reference += 2 * sizeof(double) * t->elements[i];
        largest = t->bytes[i] > largest ? t->bytes[i] : largest;
    }
    return host_memory_check(device + largest + (options->verify ? reference : 0), "the problem",
                             err);
}

int tensors_check(const struct kiln_problem *problem, const struct tensors_options *options,
                  struct kiln_error *err)
{
    struct tensors t = { 0 };
    int rc = measure_tensors(problem, &t, err);
    return rc ? rc : check_memory(&t, options, err);
}

static int write_poison(struct kiln_memory *memory, uint64_t bytes, struct kiln_error *err)
{
    KILN_AUTO(mem) void *data = malloc(bytes);
    if (!data)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for %llu bytes",
                        (unsigned long long)bytes);
    memset(data, 0xff, bytes); /* 0xff bytes are NaN in every type */
    return kiln_memory_write(memory, data, bytes, err);
}

static int write_operand(struct tensors *t, int which, uint32_t type,
                         const struct tensors_options *options, struct kiln_error *err)
{
    uint64_t elements = t->elements[which];
    KILN_AUTO(mem) void *data = malloc(t->bytes[which]);
    if (options->verify)
        t->wide[which] = calloc(elements, sizeof(double));
    if (!data || (options->verify && !t->wide[which]))
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for %llu elements",
                        (unsigned long long)elements);
    /* Gives each tensor different data, for every seed. */
    uint64_t seed = options->seed ^ ((uint64_t)(which + 1) * 0x9e3779b97f4a7c15u);
    storage_fill(type, data, elements, seed);
    if (options->verify)
        storage_widen(type, data, elements, t->wide[which]);
    return kiln_memory_write(t->memory[which], data, t->bytes[which], err);
}

static int create_workspace(struct kiln_device *device, struct tensors *t, uint64_t bytes,
                            struct kiln_error *err)
{
    if (bytes == 0)
        return KILN_E_OK;
    int rc = kiln_memory_create(device, bytes, &t->workspace, err);
    if (!rc)
        rc = write_poison(t->workspace, bytes, err);
    return rc ? cli_while(err, "workspace") : KILN_E_OK;
}

static int create_memory(struct kiln_device *device, struct tensors *t, uint32_t type,
                         const struct tensors_options *options, struct kiln_error *err)
{
    static const char *const names[] = { "tensor x", "tensor w", "tensor y" };
    for (int i = 0; i < 3; i++) {
        int rc = kiln_memory_create(device, t->bytes[i], &t->memory[i], err);
        if (!rc)
            rc = i == t->output ? write_poison(t->memory[i], t->bytes[i], err)
                                : write_operand(t, i, type, options, err);
        if (rc)
            return cli_while(err, "%s", names[i]);
    }
    return create_workspace(device, t, options->workspace, err);
}

int tensors_create(struct kiln_device *device, const struct kiln_problem *problem,
                   const struct tensors_options *options, struct tensors **ret_tensors,
                   struct kiln_error *err)
{
    KILN_AUTO(tensors) struct tensors *t = calloc(1, sizeof(*t));
    if (!t)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for tensors");
    int rc = measure_tensors(problem, t, err);
    if (!rc)
        rc = check_memory(t, options, err);
    if (!rc)
        rc = create_memory(device, t, problem->type, options, err);
    if (rc)
        return rc;
    *ret_tensors = KILN_TAKE(t);
    return KILN_E_OK;
}

void tensors_destroy(struct tensors *tensors)
{
    if (!tensors)
        return;
    for (int i = 0; i < 3; i++) {
        kiln_memory_destroy(tensors->memory[i]);
        free(tensors->wide[i]);
    }
    kiln_memory_destroy(tensors->workspace);
    free(tensors);
}
