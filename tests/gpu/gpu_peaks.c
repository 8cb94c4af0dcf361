/* SPDX-License-Identifier: MIT */
/* gpu_peaks: measures the GPU's maximum rates of memory copies, of 32-bit multiply-adds, and of
 * 16-bit multiply-adds on matrix cores.  Each rate is the median of several batches, with random
 * data. */
#include "tests/gpu/cuda_driver.h"
#include "tests/gpu/nvrtc.h"
#include "tests/gpu/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES ((uint64_t)1 << 30)
#define ROUNDS 4096u
/* Numbers of operations in one round of the kernels in tests/gpu/peaks.cu. */
#define FMA_FLOPS (2.0 * 16)                  /* per round and item */
#define MMA_FLOPS (2.0 * 8 * 16 * 8 * 16)     /* per round and warp */
#define WGMMA_FLOPS (2.0 * 4 * 64 * 256 * 16) /* per round and warp group */
#define WGMMA_SHARED ((2 * 64 + 256) * 128)

struct launch {
    struct cuda *cuda;
    void *function;
    unsigned groups, items, shared;
    void **arguments;
};

static enum kiln_code launch(void *context, struct kiln_err *err)
{
    const struct launch *l = context;
    int result = l->cuda->driver.launch(l->function, l->groups, 1, 1, l->items, 1, 1, l->shared,
                                        NULL, l->arguments, NULL);
    return result ? cuda_fail(l->cuda, result, err, "cannot launch") : KILN_OK;
}

static enum kiln_code time_kernel(void *module, const char *name, struct launch l, double *ret_us,
                                  struct kiln_err *err)
{
    const struct cuda_work work = { .launch = launch, .context = &l };
    struct cuda_timing timing;
    struct kiln_err absent = KILN_ERR_INIT;
    *ret_us = 0;
    if (cuda_function(l.cuda, module, name, &l.function, &absent) ||
        cuda_allow_shared(l.cuda, l.function, l.shared, &absent))
        return KILN_OK;
    enum kiln_code rc = cuda_time(l.cuda, &work, &timing, err);
    if (!rc)
        *ret_us = timing.microseconds;
    return rc ? kiln_while(err, "%s", name) : KILN_OK;
}

struct peaks {
    /* 0 if the GPU lacks the instruction */
    double copy_gbps, fp32_tflops, mma_tflops, wgmma_tflops;
};

static enum kiln_code measure_copy(struct cuda *cuda, void *module, struct peaks *peaks,
                                   struct kiln_err *err)
{
    uint64_t from = 0, to = 0, count = COPY_BYTES / 16;
    void *arguments[] = { &to, &from, &count };
    double us = 0;
    int result = cuda->driver.memory_allocate(&from, COPY_BYTES);
    if (!result)
        result = cuda->driver.memory_allocate(&to, COPY_BYTES);
    enum kiln_code rc =
        result ? cuda_fail(cuda, result, err, "no memory for the copy")
               : time_kernel(module, "peak_copy",
                             (struct launch){ .cuda = cuda,
                                              .groups = (unsigned)cuda->compute_units * 16,
                                              .items = 512,
                                              .arguments = arguments },
                             &us, err);
    if (us > 0)
        peaks->copy_gbps = 2.0 * (double)COPY_BYTES / us * 1e-3;
    cuda->driver.memory_free(from);
    cuda->driver.memory_free(to);
    return rc;
}

static enum kiln_code measure_arithmetic(struct cuda *cuda, void *module, struct peaks *peaks,
                                         struct kiln_err *err)
{
    uint64_t out = 0;
    uint32_t rounds = ROUNDS;
    void *arguments[] = { &out, &rounds };
    unsigned units = (unsigned)cuda->compute_units;
    const struct {
        const char *name;
        struct launch launch;
        double flops;
        double *tflops;
    } kernels[] = {
        { "peak_fma", { .groups = units * 8, .items = 256 }, FMA_FLOPS, &peaks->fp32_tflops },
        { "peak_mma", { .groups = units * 4, .items = 256 }, MMA_FLOPS / 32, &peaks->mma_tflops },
        { "peak_wgmma",
          { .groups = units, .items = 256, .shared = WGMMA_SHARED },
          WGMMA_FLOPS / 128,
          &peaks->wgmma_tflops },
    };
    int result = cuda->driver.memory_allocate(&out, 4096);
    enum kiln_code rc = result ? cuda_fail(cuda, result, err, "no memory") : KILN_OK;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]) && !rc; i++) {
        struct launch l = kernels[i].launch;
        double us = 0;
        l.cuda = cuda;
        l.arguments = arguments;
        rc = time_kernel(module, kernels[i].name, l, &us, err);
        if (us > 0)
            *kernels[i].tflops = kernels[i].flops * l.groups * l.items * ROUNDS / us * 1e-6;
    }
    cuda->driver.memory_free(out);
    return rc;
}

static enum kiln_code compile(const char *target, struct nvrtc_program *ret_program,
                              struct kiln_err *err)
{
    struct nvrtc nvrtc;
    *ret_program =
        (struct nvrtc_program){ .source = { .name = "peaks.cu",
                                            .source = bytes_of(gpu_peaks, gpu_peaks_size) } };
    enum kiln_code rc = nvrtc_open(&nvrtc, err);
    if (rc)
        return rc;
    snprintf(ret_program->target, sizeof(ret_program->target), "%s", target);
    nvrtc_compile(&nvrtc, ret_program);
    if (!ret_program->object)
        rc = kiln_fail(err, KILN_COMPILE_FAILED, "peaks.cu does not compile: %s",
                       ret_program->log ? ret_program->log : "");
    return rc;
}

static enum kiln_code measure(struct cuda *cuda, struct peaks *peaks, struct kiln_err *err)
{
    struct nvrtc_program program;
    void *module = NULL;
    char target[16];
    cuda_full_target(cuda->target, target);
    enum kiln_code rc = compile(target, &program, err);
    if (!rc)
        rc = cuda_load(cuda, bytes_of(program.object, program.size), &module, err);
    if (!rc)
        rc = measure_copy(cuda, module, peaks, err);
    if (!rc)
        rc = measure_arithmetic(cuda, module, peaks, err);
    free(program.object);
    free(program.log);
    return rc;
}

static int compile_only(const char *target)
{
    struct nvrtc_program program;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = compile(target, &program, &err);
    if (rc)
        fprintf(stderr, "gpu_peaks: %s\n", err.text);
    free(program.object);
    free(program.log);
    return rc == KILN_UNAVAILABLE ? 77 : rc ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct cuda cuda;
    struct peaks peaks = { .copy_gbps = 0 };
    struct kiln_err err = KILN_ERR_INIT;
    if (argc == 3 && strcmp(argv[1], "--compile-only") == 0)
        return compile_only(argv[2]);
    if (argc > 1) {
        fputs(
            "Usage: gpu_peaks [--compile-only TARGET]\n"
            "Prints one JSON object: GB/s of a copy, read and written; TFLOP/s in 32 bits, and of "
            "16-bit matrices\nby mma and by Hopper's wgmma (0: it has none).\n",
            stderr);
        return 2;
    }
    enum kiln_code rc = cuda_open(&cuda, &err);
    if (!rc)
        rc = measure(&cuda, &peaks, &err);
    if (rc) {
        fprintf(stderr, "gpu_peaks: %s\n", err.text);
        return 1;
    }
    double fp16 = peaks.wgmma_tflops > peaks.mma_tflops ? peaks.wgmma_tflops : peaks.mma_tflops;
    printf("{\"device\": \"%s\", \"target\": \"%s\", \"compute_units\": %d, \"l2_mib\": %d, "
           "\"clock_mhz\": %d, \"copy_gbps\": %.1f, \"fp32_tflops\": %.2f, \"fp16_tflops\": %.1f, "
           "\"mma_tflops\": %.1f, \"wgmma_tflops\": %.1f}\n",
           cuda.name, cuda.target, cuda.compute_units, cuda.l2_bytes >> 20, cuda.clock_khz / 1000,
           peaks.copy_gbps, peaks.fp32_tflops, fp16, peaks.mma_tflops, peaks.wgmma_tflops);
    cuda_close(&cuda);
    return 0;
}
