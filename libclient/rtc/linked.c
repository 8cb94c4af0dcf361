/* SPDX-License-Identifier: MIT */
/* Defines the functions of NVRTC and hiprtc under their own names, for programs and libraries that
 * link them. The dynamic linker finds these first, because libkiln-rtc is preloaded. */
#include "libclient/rtc/program.h"

/* The code of an internal error in both libraries.  The functions return it if the real library is
 * not found or cannot be wrapped. */
#define INTERNAL_ERROR 11

#define LINKED(kind) rtc_linked_library((kind), __builtin_return_address(0))
#define EXPORTED __attribute__((visibility("default")))

#define COMMON(kind, prefix)                                                                     \
    EXPORTED int prefix##CreateProgram(void **ret_program, const char *source, const char *name, \
                                       int header_count, const char *const *headers,             \
                                       const char *const *header_names);                         \
    int prefix##CreateProgram(void **ret_program, const char *source, const char *name,          \
                              int header_count, const char *const *headers,                      \
                              const char *const *header_names)                                   \
    {                                                                                            \
        struct rtc_library *l = LINKED(kind);                                                    \
        const struct rtc_inputs in = { source, name, header_count, headers, header_names };      \
        return l ? rtc_create(l, ret_program, &in) : INTERNAL_ERROR;                             \
    }                                                                                            \
    EXPORTED int prefix##DestroyProgram(void **program);                                         \
    int prefix##DestroyProgram(void **program)                                                   \
    {                                                                                            \
        struct rtc_library *l = LINKED(kind);                                                    \
        return l ? rtc_destroy(l, program) : INTERNAL_ERROR;                                     \
    }                                                                                            \
    EXPORTED int prefix##AddNameExpression(void *program, const char *expression);               \
    int prefix##AddNameExpression(void *program, const char *expression)                         \
    {                                                                                            \
        struct rtc_library *l = LINKED(kind);                                                    \
        return l ? rtc_add_name(l, program, expression) : INTERNAL_ERROR;                        \
    }                                                                                            \
    EXPORTED int prefix##CompileProgram(void *program, int count, const char *const *options);   \
    int prefix##CompileProgram(void *program, int count, const char *const *options)             \
    {                                                                                            \
        struct rtc_library *l = LINKED(kind);                                                    \
        return l ? rtc_compile(l, program, count, options) : INTERNAL_ERROR;                     \
    }                                                                                            \
    EXPORTED int prefix##GetLoweredName(void *program, const char *expression,                   \
                                        const char **ret_name);                                  \
    int prefix##GetLoweredName(void *program, const char *expression, const char **ret_name)     \
    {                                                                                            \
        struct rtc_library *l = LINKED(kind);                                                    \
        return l ? rtc_lowered(l, program, expression, ret_name) : INTERNAL_ERROR;               \
    }

#define OUTPUT(kind, function, output)                                             \
    EXPORTED int function##Size(void *program, size_t *ret_size);                  \
    int function##Size(void *program, size_t *ret_size)                            \
    {                                                                              \
        struct rtc_library *l = LINKED(kind);                                      \
        return l ? rtc_output_size(l, output, program, ret_size) : INTERNAL_ERROR; \
    }                                                                              \
    EXPORTED int function(void *program, char *ret_bytes);                         \
    int function(void *program, char *ret_bytes)                                   \
    {                                                                              \
        struct rtc_library *l = LINKED(kind);                                      \
        return l ? rtc_output_get(l, output, program, ret_bytes) : INTERNAL_ERROR; \
    }

COMMON(RTC_NVRTC, nvrtc)
OUTPUT(RTC_NVRTC, nvrtcGetCUBIN, 0)
OUTPUT(RTC_NVRTC, nvrtcGetPTX, 1)
OUTPUT(RTC_NVRTC, nvrtcGetLTOIR, 2)
OUTPUT(RTC_NVRTC, nvrtcGetOptiXIR, 3)
OUTPUT(RTC_NVRTC, nvrtcGetProgramLog, RTC_OUTPUTS_MAX)

COMMON(RTC_HIPRTC, hiprtc)
OUTPUT(RTC_HIPRTC, hiprtcGetCode, 0)
OUTPUT(RTC_HIPRTC, hiprtcGetBitcode, 1)
OUTPUT(RTC_HIPRTC, hiprtcGetProgramLog, RTC_OUTPUTS_MAX)
