/* SPDX-License-Identifier: MIT */
#include "tests/bench/direct.h"

#include "common/base/fs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define CL_DEVICE_TYPE_ALL_ 0xffffffffu
#define CL_PROGRAM_BINARY_SIZES_ 0x1165u
#define CL_PROGRAM_BINARIES_ 0x1166u

/* Returns the address of a function. ISO C cannot convert it to a function pointer, so the caller
 * copies its bytes. POSIX requires that both kinds of pointers have the same size. */
static void *find_symbol(struct direct *d, const char *name) { return dlsym(d->dl, name); }

static enum kiln_code load_library(const char *const *names, struct direct *d, struct kiln_err *err)
{
    for (; *names; names++) {
        d->dl = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (d->dl)
            return KILN_OK;
    }
    return kiln_fail(err, KILN_UNAVAILABLE, "%s", dlerror());
}

struct rtc {
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*code_size)(void *, size_t *);
    int (*code)(void *, char *);
    int (*destroy)(void **);
};

static enum kiln_code bind_rtc(struct direct *d, struct rtc *rtc, struct kiln_err *err)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        { "hiprtcCreateProgram", &rtc->create },   { "hiprtcCompileProgram", &rtc->compile },
        { "hiprtcGetCodeSize", &rtc->code_size },  { "hiprtcGetCode", &rtc->code },
        { "hiprtcDestroyProgram", &rtc->destroy },
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *at = find_symbol(d, wanted[i].name);
        if (!at)
            return kiln_fail(err, KILN_UNAVAILABLE, "hiprtc lacks '%s'", wanted[i].name);
        memcpy(wanted[i].slot, &at, sizeof(at));
    }
    return KILN_OK;
}

static bool rtc_take(const struct rtc *rtc, void *program)
{
    size_t size = 0;
    if (rtc->code_size(program, &size))
        return false;
    KILN_AUTO(mem) char *code = malloc(size + 1);
    return code && rtc->code(program, code) == 0;
}

static enum kiln_code rtc_compile(struct direct *d, const struct cold *cold, const char *options,
                                  struct kiln_err *err)
{
    char arch[COLD_TARGET_MAX + 32];
    snprintf(arch, sizeof(arch), "--offload-arch=%s", cold->target);
    const char *const arguments[] = { arch, "-O3", "-std=c++17", "-DKILN_HIP=1", options };
    struct rtc rtc;
    enum kiln_code rc = bind_rtc(d, &rtc, err);
    if (rc)
        return rc;
    void *program = NULL;
    if (rtc.create(&program, cold->source, cold->program, 0, NULL, NULL))
        return kiln_fail(err, KILN_COMPILE_FAILED, "hiprtc does not take the source");
    bool done = rtc.compile(program, 5, arguments) == 0 && rtc_take(&rtc, program);
    rtc.destroy(&program);
    return done ? KILN_OK : kiln_fail(err, KILN_COMPILE_FAILED, "hiprtc cannot compile");
}

struct opencl {
    int (*platforms)(uint32_t, void **, uint32_t *);
    int (*devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
    void *(*context)(const intptr_t *, uint32_t, void *const *, void *, void *, int *);
    void *(*program)(void *, uint32_t, const char **, const size_t *, int *);
    int (*build)(void *, uint32_t, void *const *, const char *, void *, void *);
    int (*info)(void *, uint32_t, size_t, void *, size_t *);
    int (*release)(void *);
};

static enum kiln_code bind_opencl(struct direct *d, struct opencl *cl, struct kiln_err *err)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        { "clGetPlatformIDs", &cl->platforms }, { "clGetDeviceIDs", &cl->devices },
        { "clCreateContext", &cl->context },    { "clCreateProgramWithSource", &cl->program },
        { "clBuildProgram", &cl->build },       { "clGetProgramInfo", &cl->info },
        { "clReleaseProgram", &cl->release },
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *at = find_symbol(d, wanted[i].name);
        if (!at)
            return kiln_fail(err, KILN_UNAVAILABLE, "OpenCL lacks '%s'", wanted[i].name);
        memcpy(wanted[i].slot, &at, sizeof(at));
    }
    return KILN_OK;
}

static enum kiln_code open_device(struct direct *d, const struct opencl *cl, struct kiln_err *err)
{
    void *platform = NULL;
    int rc = cl->platforms(1, &platform, NULL);
    if (!rc)
        rc = cl->devices(platform, CL_DEVICE_TYPE_ALL_, 1, &d->device, NULL);
    if (rc)
        return kiln_fail(err, KILN_UNAVAILABLE, "no OpenCL device: error %d", rc);
    d->context = cl->context(NULL, 1, &d->device, NULL, NULL, &rc);
    return d->context ? KILN_OK : kiln_fail(err, KILN_UNAVAILABLE, "no OpenCL context: %d", rc);
}

static bool opencl_take(const struct opencl *cl, void *program)
{
    size_t size = 0;
    if (cl->info(program, CL_PROGRAM_BINARY_SIZES_, sizeof(size), &size, NULL) || !size)
        return false;
    KILN_AUTO(mem) char *binary = malloc(size);
    return binary && cl->info(program, CL_PROGRAM_BINARIES_, sizeof(binary), &binary, NULL) == 0;
}

static enum kiln_code opencl_compile(struct direct *d, const struct cold *cold, const char *options,
                                     struct kiln_err *err)
{
    struct opencl cl;
    enum kiln_code rc = bind_opencl(d, &cl, err);
    if (!rc && !d->context)
        rc = open_device(d, &cl, err);
    if (rc)
        return rc;
    char all[COLD_OPTIONS_MAX + 64];
    snprintf(all, sizeof(all), "-DKILN_OPENCL=1 -cl-std=CL1.2 %s", options);
    const char *source = cold->source;
    int status = 0;
    void *program = cl.program(d->context, 1, &source, NULL, &status);
    if (!program)
        return kiln_fail(err, KILN_COMPILE_FAILED, "OpenCL does not take the source: %d", status);
    status = cl.build(program, 1, &d->device, all, NULL, NULL);
    bool done = status == 0 && opencl_take(&cl, program);
    cl.release(program);
    return done ? KILN_OK
                : kiln_fail(err, KILN_COMPILE_FAILED, "OpenCL cannot compile: %d", status);
}

/* Sets the same environment variables as kilnd does for its compilers. Compilers then write caches
 * only to |work|, and PoCL's binary contains the kernel for the source's work-group size. */
static enum kiln_code set_environment(const char *work, struct kiln_err *err)
{
    char directory[BENCH_PATH_MAX];
    enum kiln_code rc = bench_path(work, "direct-pocl", directory, err);
    if (!rc)
        rc = fs_make_directories(directory, err);
    if (!rc && (setenv("POCL_CACHE_DIR", directory, 1) || setenv("AMD_COMGR_CACHE", "0", 1) ||
                setenv("POCL_BINARY_SPECIALIZE_WG", "64-1-1-goffs0-smallgrid", 1)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot set the compilers' environment");
    return rc;
}

enum kiln_code direct_open(const char *toolchain, const char *work, struct direct *ret_direct,
                           struct kiln_err *err)
{
    static const char *const hiprtc[] = { "libhiprtc.so.7",
                                          "libhiprtc.so.6",
                                          "libhiprtc.so.5",
                                          "libamdhip64.so.7",
                                          "libamdhip64.so.6",
                                          "libamdhip64.so.5",
                                          NULL };
    static const char *const opencl[] = { "libOpenCL.so.1", NULL };
    bool is_hiprtc = strcmp(toolchain, "hiprtc") == 0;
    struct direct d = { .compile = is_hiprtc ? rtc_compile : opencl_compile };
    if (!is_hiprtc && strcmp(toolchain, "opencl") != 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "'%s' is not a library to call", toolchain);
    enum kiln_code rc = set_environment(work, err);
    if (!rc)
        rc = load_library(is_hiprtc ? hiprtc : opencl, &d, err);
    if (!rc)
        *ret_direct = d;
    return rc;
}
