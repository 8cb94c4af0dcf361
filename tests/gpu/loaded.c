/* SPDX-License-Identifier: MIT */
#include "tests/gpu/loaded.h"

#include "libclient/device/device.h"

static enum kiln_code load_kernel(struct loaded *l, uint32_t index, struct kiln_err *err)
{
    const struct solution_kernel *kernel = &l->solution->kernels[index];
    struct cuda_resources resources;
    enum kiln_code rc = cuda_function(l->cuda, l->modules[kernel->program], kernel->name,
                                      &l->functions[index], err);
    if (!rc)
        rc = cuda_allow_shared(l->cuda, l->functions[index], kernel->shared_bytes, err);
    if (!rc)
        rc = cuda_read_resources(l->cuda, l->functions[index], &resources, err);
    if (rc)
        return kiln_while(err, "loading '%s'", kernel->name);
    resources.shared += (int)kernel->shared_bytes;
    if (resources.registers > l->most.registers)
        l->most.registers = resources.registers;
    if (resources.shared > l->most.shared)
        l->most.shared = resources.shared;
    if (resources.local > l->most.local)
        l->most.local = resources.local;
    return KILN_OK;
}

enum kiln_code loaded_open(struct loaded *loaded, const struct bytes *objects, struct kiln_err *err)
{
    const struct solution *solution = loaded->solution;
    struct cuda *cuda = loaded->cuda;
    enum kiln_code rc = KILN_OK;
    for (uint32_t i = 0; i < solution->program_count && !rc; i++)
        rc = cuda_load(cuda, objects[i], &loaded->modules[i], err);
    for (uint32_t i = 0; i < solution->kernel_count && !rc; i++)
        rc = load_kernel(loaded, i, err);
    if (!rc && solution->workspace_size > 0)
        rc = guarded_allocate(cuda, solution->workspace_size, &loaded->workspace, err);
    if (rc && !cuda->is_lost)
        loaded_close(loaded);
    return rc;
}

void loaded_close(struct loaded *loaded)
{
    if (!loaded->cuda)
        return;
    guarded_free(loaded->cuda, &loaded->workspace);
    for (size_t i = 0; i < LIMIT_PLAN_KERNELS; i++)
        if (loaded->modules[i])
            loaded->cuda->driver.module_unload(loaded->modules[i]);
    *loaded = (struct loaded){ .cuda = NULL };
}

static uint64_t address_of(const struct loaded *l, int operand)
{
    switch (operand) {
    case ARGUMENT_X: return l->bench->tensors[BENCH_X].address;
    case ARGUMENT_W: return l->bench->tensors[BENCH_W].address;
    case ARGUMENT_Y: return l->bench->tensors[BENCH_Y].address;
    default: return l->workspace.address;
    }
}

static enum kiln_code encode_maps(const struct loaded *l,
                                  struct device_map ret_maps[LIMIT_PLAN_MAPS], struct kiln_err *err)
{
    struct cuda_driver *driver = &l->cuda->driver;
    for (uint32_t i = 0; i < l->solution->map_count; i++) {
        const struct tensor_map *map = &l->solution->maps[i];
        uint64_t address = address_of(l, map->operand) + map->offset;
        int result = cuda_tensor_map_encode(driver->encode_tiled, driver->encode_im2col, map,
                                            (void *)(uintptr_t)address, &ret_maps[i]);
        if (result)
            return cuda_fail(l->cuda, result, err, "cannot encode tensor map %u", i);
    }
    return KILN_OK;
}

static uint64_t value_of(const struct loaded *l, const struct solution_argument *a)
{
    switch (a->kind) {
    case ARGUMENT_X:
    case ARGUMENT_W:
    case ARGUMENT_Y:
    case ARGUMENT_WORKSPACE: return address_of(l, (int)a->kind) + a->value;
    /* fits 32-bit arguments, too, because CUDA reads the first 4 bytes (little-endian) */
    default: return a->value;
    }
}

static enum kiln_code launch_one(const struct loaded *l, uint32_t index,
                                 struct device_map maps[LIMIT_PLAN_MAPS], struct kiln_err *err)
{
    const struct solution_kernel *k = &l->solution->kernels[index];
    uint64_t values[LIMIT_KERNEL_ARGUMENTS];
    void *arguments[LIMIT_KERNEL_ARGUMENTS];
    for (uint32_t i = 0; i < k->argument_count; i++) {
        values[i] = value_of(l, &k->arguments[i]);
        arguments[i] = k->arguments[i].kind == ARGUMENT_TENSOR_MAP ? (void *)&maps[values[i]]
                                                                   : (void *)&values[i];
    }
    int result =
        l->cuda->driver.launch(l->functions[index], k->grid[0], k->grid[1], k->grid[2], k->group[0],
                               k->group[1], k->group[2], k->shared_bytes, NULL, arguments, NULL);
    return result ? cuda_fail(l->cuda, result, err, "cannot launch '%s'", k->name) : KILN_OK;
}

enum kiln_code loaded_launch(void *context, struct kiln_err *err)
{
    const struct loaded *l = context;
    struct device_map maps[LIMIT_PLAN_MAPS];
    enum kiln_code rc = encode_maps(l, maps, err);
    for (uint32_t i = 0; i < l->solution->kernel_count && !rc; i++)
        rc = launch_one(l, i, maps, err);
    return rc;
}
