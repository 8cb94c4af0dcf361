/* SPDX-License-Identifier: MIT */
#include "engine/compile/compiler.h"
#include "engine/compile/identity.h"
#include "engine/compile/rtc.h"

#include <stdio.h>
#include <string.h>

#define WHAT "NVRTC"
#define DEFAULT_CUDA "/usr/local/cuda"

struct nvrtc {
    struct compiler base;
    struct rtc_library library;
    char path[256];
};

static const struct library_symbol symbols[] = {
#define REQUIRED true
#define RTC_SYMBOL(need, field, name_) \
    { .name = name_, .slot = offsetof(struct rtc_library, field), .required = need },
#include "engine/compile/nvrtc_symbols.def"
#undef RTC_SYMBOL
#undef REQUIRED
};

static enum kiln_code open_library(struct nvrtc *n, struct kiln_err *err)
{
    const char *root = getenv("KILN_CUDA_PATH");
    char folder[256];
    snprintf(folder, sizeof(folder), "%s/lib64", root ? root : DEFAULT_CUDA);
    static const char *const names[] = { "libnvrtc.so.13",   "libnvrtc.so.12", "libnvrtc.so.11.2",
                                         "libnvrtc.so.11.1", "libnvrtc.so",    NULL };
    struct library_search search = {
        .what = WHAT,
        .folders = root ? (const char *const[]){ folder, NULL }
                        : (const char *const[]){ "", folder, NULL },
        .names = names,
        .advice = "install CUDA's NVRTC, or set KILN_CUDA_PATH",
    };
    void *dl = NULL;
    enum kiln_code rc = library_open(&search, &dl, n->path, sizeof(n->path), err);
    if (rc)
        return rc;
    return library_bind(dl, WHAT, symbols, sizeof(symbols) / sizeof(symbols[0]), &n->library, err);
}

/* NVRTC knows clang's words for few things. */
static void translate(struct arguments *a, const char *option)
{
    static const struct {
        const char *ours;
        const char *theirs;
    } words[] = {
        { "-O0", "--ptxas-options=-O0" },      { "-O1", "--ptxas-options=-O1" },
        { "-O2", "--ptxas-options=-O2" },      { "-O3", "--ptxas-options=-O3" },
        { "-ffast-math", "--use_fast_math" },  { "-ffp-contract=off", "--fmad=false" },
        { "-ffp-contract=on", "--fmad=true" }, { "-ffp-contract=fast", "--fmad=true" },
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(option, words[i].ours) == 0)
            option = words[i].theirs;
    }
    arguments_add(a, "%s", option);
}

static enum compile_end nvrtc_compile(struct compiler *compiler, const struct compile_job *job,
                                      const struct target *target, struct buffer *ret_object,
                                      struct kiln_err *err)
{
    struct nvrtc *n = (struct nvrtc *)compiler;
    ARGUMENTS_AUTO struct arguments options = { 0 };
    arguments_add(&options, "--gpu-architecture=%s", target->text);
    arguments_add(&options, "-DKILN_CUDA=1");
    /* NVRTC refuses a second standard, so the default steps aside for the job's. */
    if (!options_name(job->options, "-std=") && !options_name(job->options, "--std="))
        arguments_add(&options, "-std=c++17");
    arguments_add_options(&options, job->options, translate);
    return rtc_compile(&n->library, job, &options, ret_object, err);
}

/* The built-in headers' library is opened by the first compile, and only then can be seen. */
static void load_everything(struct compiler *compiler)
{
    struct compile_job job = compiler_probe_job(TARGET_NVIDIA);
    struct target target = { .family = TARGET_NVIDIA, .text = "sm_80" };
    struct kiln_err ignored = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer object;
    buffer_init(&object, LIMIT_CODE_OBJECT);
    (void)nvrtc_compile(compiler, &job, &target, &object, &ignored);
}

static enum kiln_code nvrtc_describe(struct compiler *compiler, struct toolchain *ret_toolchain,
                                     struct kiln_err *err)
{
    static const char *const deciding[] = { "libnvrtc", NULL }; /* and libnvrtc-builtins */
    struct nvrtc *n = (struct nvrtc *)compiler;
    struct identity id;
    int major = 0, minor = 0;
    load_everything(compiler);
    n->library.version(&major, &minor);
    snprintf(ret_toolchain->version, sizeof(ret_toolchain->version), "NVRTC %d.%d", major, minor);
    snprintf(ret_toolchain->path, sizeof(ret_toolchain->path), "%s", n->path);
    identity_init(&id, compiler->ops->name, ret_toolchain->version);
    enum kiln_code rc = identity_put_loaded(&id, deciding, err);
    ret_toolchain->identity = identity_end(&id);
    return rc;
}

static void nvrtc_close(struct compiler *compiler) { free(compiler); }

static enum kiln_code nvrtc_open(struct compiler **ret_compiler, struct kiln_err *err)
{
    KILN_AUTO(mem) struct nvrtc *n = calloc(1, sizeof(*n));
    if (!n)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open " WHAT);
    n->base.ops = &compiler_nvrtc;
    enum kiln_code rc = open_library(n, err);
    if (rc)
        return rc;
    *ret_compiler = &KILN_TAKE(n)->base;
    return KILN_OK;
}

const struct compiler_ops compiler_nvrtc = {
    .name = "nvrtc",
    .family = TARGET_NVIDIA,
    .needs_own_process = true,
    .open = nvrtc_open,
    .describe = nvrtc_describe,
    .compile = nvrtc_compile,
    .close = nvrtc_close,
};
