/* SPDX-License-Identifier: MIT */
#include "engine/compile/rtc.h"

#include <string.h>

static const struct library_symbol symbols[] = {
#define REQUIRED true
#define OPTIONAL false
#define RTC_SYMBOL(need, field, name_) \
    { .name = name_, .slot = offsetof(struct rtc_library, field), .required = need },
#include "engine/compile/nvrtc_symbols.def"
#undef RTC_SYMBOL
#undef REQUIRED
#undef OPTIONAL
    { .name = NULL },
};

static const char *const names[] = {
    "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so.11.1", "libnvrtc.so", NULL,
};

/* beginnings of library names; "libnvrtc" includes libnvrtc-builtins */
static const char *const deciding[] = { "libnvrtc", NULL };

static const char *const parts[] = { "libnvrtc-builtins", NULL };

/* Parts of names that NVRTC makes for static variables and anonymous namespaces. They contain a
 * hash that may depend on the directory of the compile. */
static const char *const path_marks[] = { "_GLOBAL__N_", "_INTERNAL_", NULL };

static void add_translated(struct arguments *a, const char *option)
{
    static const struct {
        const char *clang;
        const char *nvrtc;
    } spellings[] = {
        { "-O0", "--ptxas-options=-O0" },      { "-O1", "--ptxas-options=-O1" },
        { "-O2", "--ptxas-options=-O2" },      { "-O3", "--ptxas-options=-O3" },
        { "-ffast-math", "--use_fast_math" },  { "-ffp-contract=off", "--fmad=false" },
        { "-ffp-contract=on", "--fmad=true" }, { "-ffp-contract=fast", "--fmad=true" },
    };
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        if (strcmp(option, spellings[i].clang) == 0)
            option = spellings[i].nvrtc;
    }
    arguments_add(a, "%s", option);
}

static void add_options(struct arguments *options, const struct compile_job *job,
                        const struct target *target)
{
    arguments_add(options, "--gpu-architecture=%s", target->text);
    arguments_add(options, "-DKILN_CUDA=1");
    /* NVRTC rejects two -std options. */
    if (!options_name(job->options, "-std=") && !options_name(job->options, "--std="))
        arguments_add(options, "-std=c++17");
    arguments_add_options(options, job->options, add_translated);
}

static const struct rtc_kind kind = {
    .ops = &compiler_nvrtc,
    .what = "NVRTC",
    .root_variable = "KILN_CUDA_PATH",
    .root = "/usr/local/cuda",
    .below = "lib64",
    .names = names,
    .builtins = "libnvrtc-builtins.so",
    .advice = "install CUDA's NVRTC, or set KILN_CUDA_PATH",
    .symbols = symbols,
    .deciding = deciding,
    .parts = parts,
    .path_marks = path_marks,
    .first_target = "sm_80",
    .add_options = add_options,
};

static enum kiln_code nvrtc_open(struct compiler **ret_compiler, struct kiln_err *err)
{
    return rtc_open(&kind, ret_compiler, err);
}

const struct compiler_ops compiler_nvrtc = {
    .name = "nvrtc",
    .family = TARGET_NVIDIA,
    .needs_own_process = true,
    .compiles_programs = true,
    .open = nvrtc_open,
    .describe = rtc_describe,
    .compile = rtc_compile,
    .close = rtc_close,
};
