/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/opencl_scale.h"

#include "engine/compile/compiler.h"
#include "tests/support/test.h"

static const char source[] =
    "__kernel __attribute__((reqd_work_group_size(16, 1, 1)))\n"
    "void scale(__global const float *x, __global const float *w, __global float *y,\n"
    "           uint add, float times, ulong wide) {\n"
    "    size_t i = get_global_id(0);\n"
    "    y[i] = x[i] * w[0] * times + (float)add + (float)(wide >> 32);\n"
    "}\n";

/* PoCL reads this variable when its first thread starts, so it is set before all tests. */
SET_UP_STATIC(set_pocl_directory) { test_setenv("POCL_CACHE_DIR", test_directory()); }
TEST_PROGRAM(set_pocl_directory, NULL)

static struct bytes compile_scale(const struct kiln_device *device)
{
    static struct buffer object;
    const struct compile_job job = { .program = bytes_of_text("scale.cl"),
                                     .source = bytes_of_text(source) };
    struct compiler *compiler;
    struct target target;
    struct kiln_err err = KILN_ERR_INIT;
    if (object.size > 0)
        return buffer_view(&object);
    buffer_init(&object, LIMIT_CODE_OBJECT);
    must(target_parse(bytes_of_text(kiln_device_target(device)), &target, &err), err);
    must(compiler_opencl.open(&compiler, &err), err);
    must(compiler_opencl.compile(compiler, &job, &target, &object, &err), err);
    compiler_opencl.close(compiler);
    return buffer_view(&object);
}

struct kiln_device *opencl_scale_open(struct bytes *ret_binary)
{
    struct kiln_device *device = NULL;
    struct kiln_error err;
    if (kiln_device_open("opencl", &device, &err))
        print_message("no OpenCL device here: %s\n", err.text);
    else
        *ret_binary = compile_scale(device);
    return device;
}
