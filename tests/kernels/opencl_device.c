/* SPDX-License-Identifier: MIT */
#define CL_TARGET_OPENCL_VERSION 120
#include "tests/kernels/opencl_device.h"

#include <CL/cl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opencl_device {
    char cache[64];
    char name[128];
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
};

struct opencl_kernels {
    cl_program programs[LIMIT_PLAN_KERNELS];
    cl_kernel kernels[LIMIT_PLAN_KERNELS];
};

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static bool open_first_device(struct opencl_device *device, char why[256])
{
    cl_platform_id platform;
    cl_uint count = 0;
    if (clGetPlatformIDs(1, &platform, &count) != CL_SUCCESS || count == 0) {
        snprintf(why, 256, "no OpenCL platform is installed");
        return false;
    }
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device->id, &count) != CL_SUCCESS) {
        snprintf(why, 256, "the OpenCL platform has no device");
        return false;
    }
    clGetDeviceInfo(device->id, CL_DEVICE_NAME, sizeof(device->name), device->name, NULL);
    device->context = clCreateContext(NULL, 1, &device->id, NULL, NULL, NULL);
    if (device->context)
        device->queue = clCreateCommandQueue(device->context, device->id, 0, NULL);
    snprintf(why, 256, "no context or queue on '%s'", device->name);
    return device->queue != NULL;
}

struct opencl_device *opencl_open(char why[256])
{
    struct opencl_device *device = calloc(1, sizeof(*device));
    if (!device)
        return NULL;
    snprintf(device->cache, sizeof(device->cache), "/tmp/kiln-test-pocl-XXXXXX");
    if (mkdtemp(device->cache))
        setenv("POCL_CACHE_DIR", device->cache, 1);
    if (open_first_device(device, why))
        return device;
    opencl_close(device);
    return NULL;
}

void opencl_close(struct opencl_device *device)
{
    if (!device)
        return;
    if (device->queue)
        clReleaseCommandQueue(device->queue);
    if (device->context)
        clReleaseContext(device->context);
    nftw(device->cache, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(device);
}

const char *opencl_name(const struct opencl_device *device) { return device->name; }

static cl_program program_of(struct opencl_device *device, struct bytes text)
{
    const char *data = (const char *)text.data;
    return clCreateProgramWithSource(device->context, 1, &data, &text.size, NULL);
}

#define LOG_MAX 8192

static void read_log(struct opencl_device *device, cl_program program, char log[LOG_MAX])
{
    log[0] = '\0'; /* stays empty if LOG_MAX is too small for the log */
    size_t size = 0;
    cl_program_build_info what = CL_PROGRAM_BUILD_LOG;
    if (clGetProgramBuildInfo(program, device->id, what, LOG_MAX - 1, log, &size) != CL_SUCCESS &&
        clGetProgramBuildInfo(program, device->id, what, 0, NULL, &size) == CL_SUCCESS)
        snprintf(log, LOG_MAX, "warning: a log of %zu bytes", size);
}

/* Returns whether the program compiled without warnings. Warnings count, because a warning may
 * point to an error. */
static bool is_clean(struct opencl_device *device, cl_program program, bool is_compiled,
                     const char *options)
{
    char log[LOG_MAX];
    read_log(device, program, log);
    if (is_compiled && !strstr(log, "warning"))
        return true;
    fprintf(stderr, "%s with %s:\n%s\n", is_compiled ? "warnings" : "cannot compile", options, log);
    return false;
}

static cl_program compile(struct opencl_device *device, const struct solution_program *source,
                          enum opencl_effort effort)
{
    char options[sizeof(source->options) + 64];
    cl_program program = program_of(device, source->source), linked = NULL;
    bool is_compiled;
    cl_program headers[SOLUTION_HEADERS_MAX];
    const char *names[SOLUTION_HEADERS_MAX];
    for (uint32_t i = 0; i < source->header_count; i++) {
        headers[i] = program_of(device, source->header_texts[i]);
        names[i] = source->header_names[i];
    }
    snprintf(options, sizeof(options), "-DKILN_OPENCL=1 %s%s",
             effort == OPENCL_QUICK ? "-cl-opt-disable " : "", source->options);
    is_compiled = clCompileProgram(program, 1, &device->id, options, source->header_count, headers,
                                   names, NULL, NULL) == CL_SUCCESS;
    if (is_clean(device, program, is_compiled, options))
        linked = clLinkProgram(device->context, 1, &device->id, "", 1, &program, NULL, NULL, NULL);
    for (uint32_t i = 0; i < source->header_count; i++)
        clReleaseProgram(headers[i]);
    clReleaseProgram(program);
    return linked;
}

static bool build(struct opencl_device *device, const struct solution *solution,
                  enum opencl_effort effort, struct opencl_kernels *built)
{
    for (uint32_t i = 0; i < solution->program_count; i++) {
        built->programs[i] = compile(device, &solution->programs[i], effort);
        if (!built->programs[i])
            return false;
    }
    for (uint32_t i = 0; i < solution->kernel_count; i++) {
        const struct solution_kernel *launch = &solution->kernels[i];
        built->kernels[i] = clCreateKernel(built->programs[launch->program], launch->name, NULL);
        if (!built->kernels[i]) {
            fprintf(stderr, "no kernel '%s'\n", launch->name);
            return false;
        }
    }
    return true;
}

struct opencl_kernels *opencl_build(struct opencl_device *device, const struct solution *solution,
                                    enum opencl_effort effort)
{
    struct opencl_kernels *built = calloc(1, sizeof(*built));
    if (built && build(device, solution, effort, built))
        return built;
    opencl_kernels_destroy(built);
    return NULL;
}

void opencl_kernels_destroy(struct opencl_kernels *kernels)
{
    if (!kernels)
        return;
    for (size_t i = 0; i < LIMIT_PLAN_KERNELS; i++) {
        if (kernels->kernels[i])
            clReleaseKernel(kernels->kernels[i]);
        if (kernels->programs[i])
            clReleaseProgram(kernels->programs[i]);
    }
    free(kernels);
}

/* The device's buffers, and sub-buffers for kernel arguments that start inside a buffer. */
struct memories {
    cl_mem whole[OPENCL_MEMORIES]; /* NULL if there is no such memory */
    size_t size[OPENCL_MEMORIES];
    cl_mem parts[LIMIT_PLAN_KERNELS * LIMIT_KERNEL_ARGUMENTS];
    size_t part_count;
};

/* Returns the buffer, or a sub-buffer that starts at |offset|. Returns NULL if there is no such
 * memory, or the device does not allow a sub-buffer at |offset|. */
static cl_mem memory_at(struct memories *m, enum opencl_memory which, uint64_t offset)
{
    if (offset == 0 || !m->whole[which] || offset >= m->size[which])
        return offset ? NULL : m->whole[which];
    cl_buffer_region region = { (size_t)offset, m->size[which] - (size_t)offset };
    cl_mem part = clCreateSubBuffer(m->whole[which], CL_MEM_READ_WRITE,
                                    CL_BUFFER_CREATE_TYPE_REGION, &region, NULL);
    if (part)
        m->parts[m->part_count++] = part;
    return part;
}

static bool set_argument(cl_kernel kernel, cl_uint index, const struct solution_argument *argument,
                         struct memories *memories)
{
    switch (argument->kind) {
    case ARGUMENT_U32:
    case ARGUMENT_F32:
        return clSetKernelArg(kernel, index, sizeof(cl_uint), &argument->value) == CL_SUCCESS;
    case ARGUMENT_U64:
        return clSetKernelArg(kernel, index, sizeof(cl_ulong), &argument->value) == CL_SUCCESS;
    default: break;
    }
    cl_mem memory =
        memory_at(memories, (enum opencl_memory)(argument->kind - ARGUMENT_X), argument->value);
    return memory && clSetKernelArg(kernel, index, sizeof(memory), &memory) == CL_SUCCESS;
}

static bool launch_one(struct opencl_device *device, cl_kernel kernel,
                       const struct solution_kernel *launch, struct memories *memories)
{
    size_t local[3], global[3];
    for (cl_uint i = 0; i < launch->argument_count; i++) {
        if (!set_argument(kernel, i, &launch->arguments[i], memories)) {
            fprintf(stderr, "%s does not take its argument %u\n", launch->name, (unsigned)i);
            return false;
        }
    }
    for (int i = 0; i < 3; i++) {
        local[i] = launch->group[i];
        global[i] = (size_t)launch->grid[i] * launch->group[i];
    }
    cl_int rc =
        clEnqueueNDRangeKernel(device->queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    if (rc == CL_SUCCESS)
        rc = clFinish(device->queue);
    if (rc != CL_SUCCESS)
        fprintf(stderr, "%s does not run: OpenCL error %d\n", launch->name, rc);
    return rc == CL_SUCCESS;
}

static bool copy_in(struct opencl_device *device, struct memories *m,
                    const struct opencl_tensor tensors[OPENCL_MEMORIES])
{
    for (int i = 0; i < OPENCL_MEMORIES; i++) {
        m->size[i] = tensors[i].size;
        if (m->size[i] == 0)
            continue;
        m->whole[i] = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                     tensors[i].size, tensors[i].data, NULL);
        if (!m->whole[i]) {
            fprintf(stderr, "no buffer of %zu bytes\n", tensors[i].size);
            return false;
        }
    }
    return true;
}

static bool copy_out(struct opencl_device *device, const struct memories *m,
                     struct opencl_tensor tensors[OPENCL_MEMORIES])
{
    bool copied = true;
    for (int i = 0; i < OPENCL_MEMORIES; i++)
        if (m->whole[i])
            copied &= clEnqueueReadBuffer(device->queue, m->whole[i], CL_TRUE, 0, tensors[i].size,
                                          tensors[i].data, 0, NULL, NULL) == CL_SUCCESS;
    return copied;
}

bool opencl_run(struct opencl_device *device, struct opencl_kernels *kernels,
                const struct solution *solution, struct opencl_tensor tensors[OPENCL_MEMORIES])
{
    struct memories memories = { .part_count = 0 };
    bool ran = copy_in(device, &memories, tensors);
    for (uint32_t i = 0; ran && i < solution->kernel_count; i++)
        ran = launch_one(device, kernels->kernels[i], &solution->kernels[i], &memories);
    ran = ran && copy_out(device, &memories, tensors);
    while (memories.part_count > 0)
        clReleaseMemObject(memories.parts[--memories.part_count]);
    for (int i = 0; i < OPENCL_MEMORIES; i++)
        if (memories.whole[i])
            clReleaseMemObject(memories.whole[i]);
    return ran;
}
