/* SPDX-License-Identifier: MIT */
#include "engine/compile/compiler.h"
#include "engine/compile/identity.h"
#include "engine/compile/rtc.h"

#include <stdio.h>

#define WHAT "hiprtc"
#define DEFAULT_ROCM "/opt/rocm"

struct hiprtc {
    struct compiler base;
    struct rtc_library library;
    char path[256];
};

static const struct library_symbol symbols[] = {
#define REQUIRED true
#define RTC_SYMBOL(need, field, name_) \
    { .name = name_, .slot = offsetof(struct rtc_library, field), .required = need },
#include "engine/compile/hiprtc_symbols.def"
#undef RTC_SYMBOL
#undef REQUIRED
};

static enum kiln_code open_library(struct hiprtc *h, struct kiln_err *err)
{
    const char *root = getenv("KILN_ROCM_PATH");
    char folder[256];
    snprintf(folder, sizeof(folder), "%s/lib", root ? root : DEFAULT_ROCM);
    /* hiprtc left the HIP runtime for a library of its own in ROCm 5.3. */
    static const char *const names[] = { "libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so.5",
                                         "libhiprtc.so",     "libamdhip64.so.7", "libamdhip64.so.6",
                                         "libamdhip64.so.5", "libamdhip64.so",   NULL };
    struct library_search search = {
        .what = WHAT,
        .folders = root ? (const char *const[]){ folder, NULL }
                        : (const char *const[]){ "", folder, NULL },
        .names = names,
        .advice = "install ROCm or Debian's libamdhip64-5, or set KILN_ROCM_PATH",
    };
    void *dl = NULL;
    enum kiln_code rc = library_open(&search, &dl, h->path, sizeof(h->path), err);
    if (rc)
        return rc;
    return library_bind(dl, WHAT, symbols, sizeof(symbols) / sizeof(symbols[0]), &h->library, err);
}

static enum compile_end hiprtc_compile(struct compiler *compiler, const struct compile_job *job,
                                       const struct target *target, struct buffer *ret_object,
                                       struct kiln_err *err)
{
    struct hiprtc *h = (struct hiprtc *)compiler;
    ARGUMENTS_AUTO struct arguments options = { 0 };
    arguments_add(&options, "--offload-arch=%s", target->text);
    arguments_add(&options, "-O3");
    arguments_add(&options, "-std=c++17");
    arguments_add(&options, "-DKILN_HIP=1");
    arguments_add_options(&options, job->options, NULL);
    return rtc_compile(&h->library, job, &options, ret_object, err);
}

/* The code-object library is opened by hiprtc's first compile, and only then can be seen.  Which
 * target is asked for does not matter, nor whether it is known; every hiprtc up to now knows
 * this one. */
static void load_everything(struct compiler *compiler)
{
    struct compile_job job = compiler_probe_job(TARGET_AMDGPU);
    struct target target = { .family = TARGET_AMDGPU, .text = "gfx1030" };
    struct kiln_err ignored = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer object;
    buffer_init(&object, LIMIT_CODE_OBJECT);
    (void)hiprtc_compile(compiler, &job, &target, &object, &ignored);
}

static enum kiln_code hiprtc_describe(struct compiler *compiler, struct toolchain *ret_toolchain,
                                      struct kiln_err *err)
{
    static const char *const deciding[] = { "libhiprtc", "libamdhip64", "libamd_comgr",
                                            "libLLVM",   "libclang",    NULL };
    struct hiprtc *h = (struct hiprtc *)compiler;
    struct identity id;
    int major = 0, minor = 0;
    load_everything(compiler);
    h->library.version(&major, &minor);
    snprintf(ret_toolchain->version, sizeof(ret_toolchain->version), "hiprtc %d.%d", major, minor);
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "%s", h->path);
    identity_init(&id, compiler->ops->name, ret_toolchain->version);
    enum kiln_code rc = identity_put_loaded(&id, deciding, err);
    ret_toolchain->identity = identity_end(&id);
    return rc;
}

static void hiprtc_close(struct compiler *compiler) { free(compiler); }

static enum kiln_code hiprtc_open(struct compiler **ret_compiler, struct kiln_err *err)
{
    KILN_AUTO(mem) struct hiprtc *h = calloc(1, sizeof(*h));
    if (!h)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open " WHAT);
    h->base.ops = &compiler_hiprtc;
    enum kiln_code rc = open_library(h, err);
    if (rc)
        return rc;
    *ret_compiler = &KILN_TAKE(h)->base;
    return KILN_OK;
}

const struct compiler_ops compiler_hiprtc = {
    .name = "hiprtc",
    .family = TARGET_AMDGPU,
    .needs_own_process = true,
    .open = hiprtc_open,
    .describe = hiprtc_describe,
    .compile = hiprtc_compile,
    .close = hiprtc_close,
};
