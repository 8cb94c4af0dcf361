/* SPDX-License-Identifier: MIT */
#define CL_TARGET_OPENCL_VERSION 120
#include "tests/kernels/opencl_device.h"

#include <CL/cl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opencl_device {
    char cache[64]; /* the folder given to PoCL, removed at the end */
    char name[128];
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
};

struct opencl_kernel {
    cl_program program;
    cl_kernel kernel;
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

static void print_log(struct opencl_device *device, cl_program program, const char *options)
{
    char log[8192] = "";
    clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log, NULL);
    fprintf(stderr, "cannot compile with %s:\n%s\n", options, log);
}

static cl_program compile(struct opencl_device *device, const struct solution_program *source)
{
    char options[sizeof(source->options) + 32];
    cl_program program = program_of(device, source->source);
    cl_program header = program_of(device, source->header_texts[0]);
    const char *name = source->header_names[0];
    cl_program linked = NULL;
    snprintf(options, sizeof(options), "-DKILN_OPENCL=1 %s", source->options);
    if (clCompileProgram(program, 1, &device->id, options, 1, &header, &name, NULL, NULL) ==
        CL_SUCCESS)
        linked = clLinkProgram(device->context, 1, &device->id, "", 1, &program, NULL, NULL, NULL);
    if (!linked)
        print_log(device, program, options);
    clReleaseProgram(header);
    clReleaseProgram(program);
    return linked;
}

struct opencl_kernel *opencl_build(struct opencl_device *device, const struct solution *solution)
{
    const struct solution_kernel *launch = &solution->kernels[0];
    struct opencl_kernel *kernel = calloc(1, sizeof(*kernel));
    if (!kernel)
        return NULL;
    kernel->program = compile(device, &solution->programs[launch->program]);
    if (kernel->program)
        kernel->kernel = clCreateKernel(kernel->program, launch->name, NULL);
    if (kernel->kernel)
        return kernel;
    fprintf(stderr, "no kernel '%s'\n", launch->name);
    opencl_kernel_destroy(kernel);
    return NULL;
}

void opencl_kernel_destroy(struct opencl_kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->kernel)
        clReleaseKernel(kernel->kernel);
    if (kernel->program)
        clReleaseProgram(kernel->program);
    free(kernel);
}

static bool set_arguments(struct opencl_kernel *kernel, const struct solution_kernel *launch,
                          const cl_mem memories[3])
{
    for (cl_uint i = 0; i < launch->argument_count; i++) {
        const struct solution_argument *argument = &launch->arguments[i];
        cl_uint number = (cl_uint)argument->value;
        bool is_number = argument->kind == ARGUMENT_U32;
        cl_int rc = is_number ? clSetKernelArg(kernel->kernel, i, sizeof(number), &number)
                              : clSetKernelArg(kernel->kernel, i, sizeof(cl_mem),
                                               &memories[argument->kind - ARGUMENT_X]);
        if (rc != CL_SUCCESS)
            return false;
    }
    return true;
}

bool opencl_run(struct opencl_device *device, struct opencl_kernel *kernel,
                const struct solution *solution, struct opencl_tensor *x, struct opencl_tensor *w,
                struct opencl_tensor *y)
{
    const struct solution_kernel *launch = &solution->kernels[0];
    struct opencl_tensor *tensors[3] = { x, w, y };
    cl_mem memories[3];
    size_t local[3], global[3];
    for (int i = 0; i < 3; i++) {
        memories[i] = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                     tensors[i]->size, tensors[i]->data, NULL);
        local[i] = launch->group[i];
        global[i] = (size_t)launch->grid[i] * launch->group[i];
    }
    bool ran = set_arguments(kernel, launch, memories) &&
               clEnqueueNDRangeKernel(device->queue, kernel->kernel, 3, NULL, global, local, 0,
                                      NULL, NULL) == CL_SUCCESS &&
               clFinish(device->queue) == CL_SUCCESS;
    for (int i = 0; i < 3; i++) {
        ran = ran && clEnqueueReadBuffer(device->queue, memories[i], CL_TRUE, 0, tensors[i]->size,
                                         tensors[i]->data, 0, NULL, NULL) == CL_SUCCESS;
        clReleaseMemObject(memories[i]);
    }
    return ran;
}
