/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/gpu_fixture.h"

#include "libclient/device/elf_check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct gpu gpu;

static struct fake_gpu fresh;
static void *dl;

static void ignore(void *context, const struct kiln_device_info *info,
                   const struct kiln_error *why_not)
{
    (void)context;
    (void)info;
    (void)why_not;
}

/* Opens the fake runtime in |directory|. Fails the test if the host's own runtime was opened
 * instead. */
static void open_runtime(const char *directory)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", KILN_FAKE_GPU, directory);
    gpu.directory = path;
    must(kiln_library_path_set(gpu.kind, path, &gpu.err), gpu.err);
    must(kiln_device_list(ignore, NULL, &gpu.err), gpu.err);
    const char *file = kiln_library_file(gpu.kind);
    assert_non_null(file);
    assert_memory_equal(file, path, strlen(path));
    dl = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(dl);
}

void gpu_init(int argc, char **argv, const char *standard)
{
    static const char *const variables[] = { "ROCR_VISIBLE_DEVICES",  "HIP_VISIBLE_DEVICES",
                                             "CUDA_VISIBLE_DEVICES",  "KILN_HIP_LIBRARY",
                                             "KILN_CUDA_LIBRARY",     "KILN_HIP_LIBRARY_PATH",
                                             "KILN_CUDA_LIBRARY_PATH" };
    const char *directory = argc > 1 ? argv[1] : standard;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    gpu.has_tensor_maps = strcmp(directory, "cuda") == 0;
    gpu.is_cuda = gpu.has_tensor_maps || strcmp(directory, "cuda11") == 0;
    setenv(gpu.is_cuda ? "KILN_HIP_LIBRARY" : "KILN_CUDA_LIBRARY", "/nonexistent", 1);
    setenv("KILN_OPENCL_LIBRARY", "/nonexistent", 1);
    gpu.kind = gpu.is_cuda ? "cuda" : "hip";
    gpu.rocm = gpu.is_cuda ? 0 : directory[3] - '0';
    gpu.target = !gpu.is_cuda ? "gfx90a:sramecc+:xnack-" : gpu.has_tensor_maps ? "sm_90a" : "sm_90";
    gpu.machine = gpu.is_cuda ? ELF_MACHINE_CUDA : ELF_MACHINE_AMDGPU;
    gpu.object = made_object(gpu.machine, 0, "scale reverse count_up fault copy_mapped");
    open_runtime(directory);
    struct fake_gpu *(*control)(void);
    *(void **)&control = gpu_symbol("fake_gpu_control");
    gpu.fake = control();
    fresh = *gpu.fake;
}

void *gpu_symbol(const char *name)
{
    void *address = dlsym(dl, name);
    assert_non_null(address);
    return address;
}

int gpu_live(void)
{
    int live = 0;
    for (int i = 0; i < FAKE_KINDS; i++)
        live += gpu.fake->live[i];
    return live;
}

int gpu_set_up(void **state)
{
    (void)state;
    *gpu.fake = fresh;
    gpu.err = (struct kiln_error){ 0 };
    return 0;
}

int gpu_tear_down(void **state)
{
    (void)state;
    assert_int_equal(gpu_live(), 0);
    return 0;
}

const char *gpu_name(int number)
{
    static _Thread_local char name[32];
    snprintf(name, sizeof(name), "%s:%d", gpu.kind, number);
    return name;
}

struct kiln_device *gpu_open(int number)
{
    struct kiln_device *device = NULL;
    must(kiln_device_open(gpu_name(number), &device, &gpu.err), gpu.err);
    return device;
}

static int write_tensors(struct gpu_work *work, uint32_t elements, struct kiln_error *err)
{
    float *numbers = calloc(elements, sizeof(*numbers));
    assert_non_null(numbers);
    for (uint32_t i = 0; i < elements; i++)
        numbers[i] = (float)i;
    int rc = kiln_memory_write(work->x, numbers, elements * sizeof(*numbers), err);
    numbers[0] = 10;
    if (!rc)
        rc = kiln_memory_write(work->w, numbers, elements * sizeof(*numbers), err);
    free(numbers);
    return rc ? rc : kiln_memory_fill(work->y, 0xff, /* stream= */ NULL, err);
}

int gpu_work_start(struct kiln_device *device, const struct made_plan *made,
                   struct gpu_work *ret_work, struct kiln_error *err)
{
    uint32_t elements = made->elements ? made->elements : MADE_ELEMENTS;
    uint64_t bytes = elements * sizeof(float);
    struct gpu_work work = { .plan = made_plan_create(made) };
    int rc = kiln_memory_create(device, bytes, &work.x, err);
    if (!rc)
        rc = kiln_memory_create(device, bytes, &work.w, err);
    if (!rc)
        rc = kiln_memory_create(device, bytes, &work.y, err);
    if (!rc)
        rc = write_tensors(&work, elements, err);
    if (!rc)
        rc = kiln_run_create(device, work.plan, &work.run, err);
    work.tensors =
        (struct kiln_tensors){ .size = sizeof(work.tensors), work.x, work.w, work.y, NULL };
    if (rc)
        gpu_work_end(&work);
    *ret_work = work;
    return rc;
}

void gpu_work_end(struct gpu_work *work)
{
    kiln_run_destroy(work->run);
    if (work->plan)
        kiln_plan_unref(work->plan);
    kiln_memory_destroy(work->x);
    kiln_memory_destroy(work->w);
    kiln_memory_destroy(work->y);
    *work = (struct gpu_work){ .run = NULL };
}

void gpu_work_check_scale(struct gpu_work *work)
{
    float y[MADE_ELEMENTS] = { 0 };
    must(kiln_memory_read(work->y, y, sizeof(y), &gpu.err), gpu.err);
    for (int i = 0; i < MADE_ELEMENTS; i++)
        assert_true(y[i] == (float)(i * 20 + 8));
}

struct made_plan gpu_scale(void) { return made_plan_scale(gpu.target, gpu.object); }

struct made_plan gpu_reverse(unsigned bytes)
{
    unsigned floats = bytes / (unsigned)sizeof(float);
    return (struct made_plan){ .object = gpu.object,
                               .target = gpu.target,
                               .entry = "reverse",
                               .grid = { 1, 1, 1 },
                               .group = { 256, 1, 1 },
                               .shared_bytes = bytes,
                               .arguments = { { .kind = ARGUMENT_X },
                                              { .kind = ARGUMENT_Y },
                                              { .kind = ARGUMENT_U32, .value = floats } },
                               .argument_count = 3,
                               .elements = floats,
                               .key = 1 };
}

struct made_plan gpu_copy_mapped(void)
{
    return (
        struct made_plan){ .object = gpu.object,
                           .target = gpu.target,
                           .entry = "copy_mapped",
                           .grid = { 1, 1, 1 },
                           .group = { 1, 1, 1 },
                           .arguments = { { .kind = ARGUMENT_TENSOR_MAP }, { .kind = ARGUMENT_Y } },
                           .argument_count = 2,
                           .maps = { { .operand = ARGUMENT_X,
                                       .type = TYPE_FLOAT16,
                                       .mode = TENSOR_MAP_TILED,
                                       .swizzle = TENSOR_MAP_SWIZZLE_128,
                                       .rank = 2,
                                       .dims = { 16, MADE_ELEMENTS / 16 },
                                       .strides = { 2, 32 },
                                       .steps = { 1, 1 },
                                       .box = { 8, 2 } } },
                           .map_count = 1,
                           .key = 1 };
}

struct made_plan gpu_count_up(const char *entry)
{
    return (struct made_plan){ .object = gpu.object,
                               .target = gpu.target,
                               .entry = entry,
                               .grid = { 1, 1, 1 },
                               .group = { 1, 1, 1 },
                               .arguments = { { .kind = ARGUMENT_Y } },
                               .argument_count = 1,
                               .key = 1 };
}
