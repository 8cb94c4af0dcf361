/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "engine/compile/compiler.h"

#include <string.h>

const struct compiler_ops *const compilers[COMPILERS] = {
    &compiler_hiprtc,
    &compiler_clang,
    &compiler_nvrtc,
    &compiler_opencl,
};

const struct compiler_ops *compiler_find(struct bytes name)
{
    for (size_t i = 0; i < COMPILERS; i++) {
        if (bytes_equal_text(name, compilers[i]->name))
            return compilers[i];
    }
    return NULL;
}

struct compile_job compiler_probe_job(enum target_family family)
{
    static const struct {
        const char *program;
        const char *source;
    } probes[] = {
        /* Spells out the attribute: HIP's headers define __global__, but the probe does not include
         * them. */
        [TARGET_AMDGPU] = { "probe.hip", "extern \"C\" __attribute__((global)) "
                                         "void probe(float *y) { *y = 1.0f; }\n" },
        [TARGET_NVIDIA] = { "probe.cu", "extern \"C\" __global__ "
                                        "void probe(float *y) { *y = 1.0f; }\n" },
        [TARGET_OPENCL] = { "probe.cl", "__kernel void probe(__global float *y) { *y = 1.0f; }\n" },
    };
    return (struct compile_job){ .kind = COMPILE_PROBE,
                                 .program = bytes_of_text(probes[family].program),
                                 .source = bytes_of_text(probes[family].source) };
}

void compiler_log(const char *text, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (fs_write_all(STDERR_FILENO, bytes_of(text, size), &err))
        return;
    if (size && text[size - 1] != '\n' && fs_write_all(STDERR_FILENO, bytes_of("\n", 1), &err))
        return;
}
