/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/opencl_scale.h"

#include "libclient/device/opencl_library.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "__kernel __attribute__((reqd_work_group_size(16, 1, 1)))\n"
    "void scale(__global const float *x, __global const float *w, __global float *y,\n"
    "           uint add, float times, ulong wide) {\n"
    "    size_t i = get_global_id(0);\n"
    "    y[i] = x[i] * w[0] * times + (float)add + (float)(wide >> 32);\n"
    "}\n";

static char cache[] = "/tmp/kiln-test-pocl-XXXXXX";

void opencl_scale_init(void)
{
    if (mkdtemp(cache))
        setenv("POCL_CACHE_DIR", cache, 1);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

void opencl_scale_done(void) { nftw(cache, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

static void *symbol(const char *name)
{
    static void *dl;
    if (!dl)
        dl = dlopen("libOpenCL.so.1", RTLD_NOW);
    void *address = dlsym(dl, name);
    assert_non_null(address);
    return address;
}

struct bytes opencl_scale_build(void)
{
    cl_program (*create)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
    cl_int (*info)(cl_program, cl_program_info, size_t, void *, size_t *);
    *(void **)&create = symbol("clCreateProgramWithSource");
    *(void **)&info = symbol("clGetProgramInfo");
    const struct opencl_library *cl;
    struct kiln_err err = KILN_ERR_INIT;
    must(opencl_library_use(&cl, &err), err);
    cl_platform_id platform;
    cl_device_id device;
    assert_int_equal(cl->clGetPlatformIDs(1, &platform, NULL), CL_SUCCESS);
    assert_int_equal(cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), 0);
    cl_context context = cl->clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    const char *text = source;
    cl_program program = create(context, 1, &text, NULL, NULL);
    assert_int_equal(cl->clBuildProgram(program, 1, &device, "", NULL, NULL), CL_SUCCESS);
    size_t size = 0;
    assert_int_equal(info(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL), 0);
    unsigned char *data = malloc(size);
    assert_int_equal(info(program, CL_PROGRAM_BINARIES, sizeof(data), &data, NULL), 0);
    cl->clReleaseProgram(program);
    cl->clReleaseContext(context);
    return bytes_of(data, size);
}
