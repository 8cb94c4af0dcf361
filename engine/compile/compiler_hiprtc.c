/* SPDX-License-Identifier: MIT */
#include "engine/compile/rtc.h"

static const struct library_symbol symbols[] = {
#define REQUIRED true
#define OPTIONAL false
#define RTC_SYMBOL(need, field, name_) \
    { .name = name_, .slot = offsetof(struct rtc_library, field), .required = need },
#include "engine/compile/hiprtc_symbols.def"
#undef RTC_SYMBOL
#undef REQUIRED
#undef OPTIONAL
    { .name = NULL },
};

/* Before ROCm 5.3, hiprtc was part of the HIP runtime, libamdhip64. */
static const char *const names[] = {
    "libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so.5", "libhiprtc.so", "libamdhip64.so.7",
    "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL,
};

static const char *const deciding[] = {
    "libhiprtc", "libamdhip64", "libamd_comgr", "libLLVM", "libclang", NULL,
};

/* Other libraries of hiprtc. libkiln-rtc identifies hiprtc by the build ids of its main library and
 * of these libraries, and has the same list (libclient/rtc/identity.c). Before ROCm 5.3, there was
 * no libhiprtc-builtins. */
static const char *const parts[] = { "libhiprtc-builtins", "libamd_comgr", "libLLVM", "libclang",
                                     NULL };

/* Parts of the names of comgr's private directories, in which it compiles. A result that contains
 * such a part may depend on the directory. */
static const char *const path_marks[] = { "/comgr-", NULL };

static void add_options(struct arguments *options, const struct compile_job *job,
                        const struct target *target)
{
    arguments_add(options, "--offload-arch=%s", target->text);
    arguments_add(options, "-O3");
    arguments_add(options, "-std=c++17");
    arguments_add(options, "-DKILN_HIP=1");
    arguments_add_options(options, job->options, NULL);
}

static const struct rtc_kind kind = {
    .ops = &compiler_hiprtc,
    .what = "hiprtc",
    .root_variable = "KILN_ROCM_PATH",
    .root = "/opt/rocm",
    .below = "lib",
    .names = names,
    .advice = "install ROCm or Debian's libamdhip64-5, or set KILN_ROCM_PATH",
    .symbols = symbols,
    .deciding = deciding,
    .parts = parts,
    .path_marks = path_marks,
    .first_target = "gfx1030",
    .add_options = add_options,
};

static enum kiln_code hiprtc_open(struct compiler **ret_compiler, struct kiln_err *err)
{
    return rtc_open(&kind, ret_compiler, err);
}

const struct compiler_ops compiler_hiprtc = {
    .name = "hiprtc",
    .family = TARGET_AMDGPU,
    .needs_own_process = true,
    .compiles_programs = true,
    .open = hiprtc_open,
    .describe = rtc_describe,
    .compile = rtc_compile,
    .close = rtc_close,
};
