/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/variables.h"

#include "engine/digest/sha256.h"

#include <string.h>
#include <unistd.h>

#define NVRTC READER_NVRTC
#define CLANG READER_CLANG
#define PROGRAM READER_PROGRAM

struct variable {
    const char *beginning; /* of its name, or its name and "=" */
    unsigned readers;      /* their outputs depend on the variable */
    unsigned adds_options; /* for these readers */
};

/* kiln-cc cannot know what the dynamic linker and the libraries of a compiler read, so its
 * beginnings are shorter. */
static const struct variable variables[] = {
    { "NVRTC_APPEND_FLAGS=", NVRTC, NVRTC },
    { "NVRTC_PREPEND_FLAGS=", NVRTC, NVRTC },
    { "NVRTC", NVRTC, 0 },
    { "NVVM_", NVRTC, 0 },
    { "NV_NVVM_", NVRTC, 0 },
    { "LIBNVVM_", NVRTC | PROGRAM, 0 },
    { "EDG_", NVRTC | PROGRAM, 0 },
    { "CAN_FINALIZE", NVRTC | PROGRAM, 0 },
    { "DUMP_KNOBS", NVRTC | PROGRAM, NVRTC },
    { "AS_SECURE_LOG_FILE=", NVRTC | CLANG | PROGRAM, NVRTC | CLANG },
    { "HIPRTC_COMPILE_OPTIONS_APPEND=", CLANG, CLANG },
    { "HIPRTC_LINK_OPTIONS_APPEND=", CLANG, CLANG },
    { "HIPRTC_", CLANG, 0 },
    { "GPU_ENABLE_", CLANG, 0 },
    { "AMD_COMGR_DRIVER_OPTIONS_APPEND=", CLANG, CLANG },
    { "AMD_COMGR_SAVE_TEMPS=", CLANG, CLANG },
    { "AMD_COMGR_SAVE_LLVM_TEMPS=", CLANG, CLANG },
    { "AMD_COMGR_REDIRECT_LOGS=", CLANG, CLANG },
    { "AMD_COMGR_TIME_STATISTICS=", CLANG, CLANG },
    { "AMD_COMGR_EMIT_VERBOSE_LOGS=", CLANG, CLANG },
    { "AMD_COMGR_", CLANG, 0 },
    { "ROCM_PATH=", CLANG, 0 },
    { "HIP_PATH=", CLANG, 0 },
    { "HIP_DEVICE_LIB_PATH=", CLANG, 0 },
    { "CPATH=", CLANG | PROGRAM, 0 },
    { "C_INCLUDE", CLANG | PROGRAM, 0 },
    { "CPLUS_INCLUDE", CLANG | PROGRAM, 0 },
    { "COMPILER_PATH=", CLANG | PROGRAM, 0 },
    { "CLANG", CLANG | PROGRAM, 0 },
    { "LLVM_OVERRIDE_PRODUCER=", NVRTC | CLANG | PROGRAM, 0 },
    { "LLVM", CLANG | PROGRAM, 0 },
    { "LLD_REPRODUCE=", CLANG | PROGRAM, CLANG },
    { "LLD_", CLANG | PROGRAM, 0 },
    { "ELF_PACKAGE_METADATA=", CLANG | PROGRAM, 0 },
    { "NO_PKG_METADATA=", CLANG | PROGRAM, 0 },
    { "OFFLOAD_BUNDLER_", CLANG | PROGRAM, 0 },
    { "COMPRESSED_BUNDLE_", CLANG | PROGRAM, 0 },
    { "DEPENDENCIES_OUTPUT=", CLANG | PROGRAM, CLANG },
    { "SUNPRO_DEPENDENCIES=", CLANG | PROGRAM, CLANG },
    { "CCC_OVERRIDE_OPTIONS=", PROGRAM, PROGRAM },
    { "AMD", PROGRAM, 0 },
    { "CCC_", PROGRAM, 0 },
    { "CC_", PROGRAM, 0 },
    { "CUDA", PROGRAM, 0 },
    { "DEVICE_LIB", PROGRAM, 0 },
    { "FORCE_", PROGRAM, 0 },
    { "GCC_", PROGRAM, 0 },
    { "HIP", PROGRAM, 0 },
    { "HOME=", PROGRAM, 0 },
    { "LANG", PROGRAM, 0 },
    { "LC_", PROGRAM, 0 },
    { "LD_", PROGRAM, 0 },
    { "LIBRARY_PATH=", PROGRAM, 0 },
    { "NV", PROGRAM, 0 },
    { "OBJC", PROGRAM, 0 },
    { "OCL", PROGRAM, 0 },
    { "OPENCL", PROGRAM, 0 },
    { "PATH=", PROGRAM, 0 },
    { "PTXAS", PROGRAM, 0 },
    { "ROCM", PROGRAM, 0 },
    { "SOURCE_DATE_EPOCH=", PROGRAM, 0 },
};

/* Variables that begin like those above, but change no output.  Ranks of a job often differ in the
 * devices that they see. */
static const char *const ignored[] = { "AMD_COMGR_CACHE",         "CUDA_CACHE_",
                                       "CUDA_VISIBLE_DEVICES=",   "HIP_VISIBLE_DEVICES=",
                                       "NVIDIA_VISIBLE_DEVICES=", NULL };

static bool begins_with(const char *text, const char *beginning)
{
    return *text == *beginning && strncmp(text, beginning, strlen(beginning)) == 0;
}

static bool is_ignored(const char *text)
{
    for (const char *const *one = ignored; *one; one++)
        if (begins_with(text, *one))
            return true;
    return false;
}

/* Returns the row of the variable in |text|, which is "NAME=VALUE", or NULL. */
static const struct variable *find_variable(const char *text, enum variable_reader reader)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if ((variables[i].readers & reader) && begins_with(text, variables[i].beginning))
            return is_ignored(text) ? NULL : &variables[i];
    return NULL;
}

enum variable_reader variables_reader(enum rtc_kind kind)
{
    return kind == RTC_NVRTC ? READER_NVRTC : READER_CLANG;
}

bool variables_are_set(enum variable_reader reader)
{
    for (char *const *one = environ; one && *one; one++)
        if (find_variable(*one, reader))
            return true;
    return false;
}

/* Adds the variables' digests, so that the order of the variables does not matter. */
struct digest variables_digest(enum variable_reader reader)
{
    struct digest sum = { .bytes = { 0 } };
    for (char *const *one = environ; one && *one; one++) {
        if (!find_variable(*one, reader))
            continue;
        const struct digest digest = sha256_of(bytes_of_text(*one));
        for (size_t i = 0; i < DIGEST_SIZE; i++)
            sum.bytes[i] = (uint8_t)(sum.bytes[i] + digest.bytes[i]);
    }
    return sum;
}

bool variables_add_options(enum variable_reader reader)
{
    for (char *const *one = environ; one && *one; one++) {
        const struct variable *found = find_variable(*one, reader);
        const char *sign = found && (found->adds_options & reader) ? strchr(*one, '=') : NULL;
        if (sign && sign[1])
            return true;
    }
    return false;
}
