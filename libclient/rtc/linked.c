/* SPDX-License-Identifier: MIT */
/* Defines the functions of NVRTC, hiprtc and comgr under their own names, for programs and
 * libraries that link them.  The dynamic linker finds these functions first, because libkiln-rtc is
 * preloaded. */
#include "libclient/rtc/comgr.h"
#include "libclient/rtc/preload.h"
#include "libclient/rtc/program.h"

/* The functions return these codes if no loaded library has them: an internal error of NVRTC and
 * hiprtc, and an error of comgr. */
#define INTERNAL_ERROR 11
#define COMGR_ERROR 1

#define EXPORTED __attribute__((visibility("default")))

/* Defines |name| with the parameters |declared|.  The function calls |wrapper|, whose first
 * argument is the library |l|.  If the library cannot be wrapped, |name| calls the library's own
 * function with the arguments |given|. */
#define DEFINE(kind, name, declared, wrapper, given)                                     \
    EXPORTED int name declared;                                                          \
    int name declared                                                                    \
    {                                                                                    \
        struct rtc_library *l = rtc_linked_library((kind), __builtin_return_address(0)); \
        int(*next) declared = NULL;                                                      \
        if (l)                                                                           \
            return wrapper;                                                              \
        preload_find_next(#name, &next);                                                 \
        return next ? next given : (kind) == RTC_COMGR ? COMGR_ERROR : INTERNAL_ERROR;   \
    }

#define COMMON(kind, prefix)                                                                      \
    DEFINE(kind, prefix##CreateProgram,                                                           \
           (void **ret_program, const char *source, const char *name, int header_count,           \
            const char *const *headers, const char *const *header_names),                         \
           rtc_create(l, ret_program,                                                             \
                      &(struct rtc_inputs){ source, name, header_count, headers, header_names }), \
           (ret_program, source, name, header_count, headers, header_names))                      \
    DEFINE(kind, prefix##DestroyProgram, (void **program), rtc_destroy(l, program), (program))    \
    DEFINE(kind, prefix##AddNameExpression, (void *program, const char *expression),              \
           rtc_add_name(l, program, expression), (program, expression))                           \
    DEFINE(kind, prefix##CompileProgram, (void *program, int count, const char *const *options),  \
           rtc_compile(l, program, count, options), (program, count, options))                    \
    DEFINE(kind, prefix##GetLoweredName,                                                          \
           (void *program, const char *expression, const char **ret_name),                        \
           rtc_lowered(l, program, expression, ret_name), (program, expression, ret_name))

#define OUTPUT(kind, function, output)                                         \
    DEFINE(kind, function##Size, (void *program, size_t *ret_size),            \
           rtc_output_size(l, output, program, ret_size), (program, ret_size)) \
    DEFINE(kind, function, (void *program, char *ret_bytes),                   \
           rtc_output_get(l, output, program, ret_bytes), (program, ret_bytes))

COMMON(RTC_NVRTC, nvrtc)
OUTPUT(RTC_NVRTC, nvrtcGetCUBIN, 0)
OUTPUT(RTC_NVRTC, nvrtcGetPTX, 1)
OUTPUT(RTC_NVRTC, nvrtcGetLTOIR, 2)
OUTPUT(RTC_NVRTC, nvrtcGetOptiXIR, 3)
OUTPUT(RTC_NVRTC, nvrtcGetNVVM, 4)
OUTPUT(RTC_NVRTC, nvrtcGetTileIR, 5)
OUTPUT(RTC_NVRTC, nvrtcGetProgramLog, RTC_OUTPUTS_MAX)
DEFINE(RTC_NVRTC, nvrtcSetFlowCallback, (void *program, rtc_callback_fn *callback, void *payload),
       l->real.set_callback ? rtc_set_callback(l, program, callback, payload) : INTERNAL_ERROR,
       (program, callback, payload))

COMMON(RTC_HIPRTC, hiprtc)
OUTPUT(RTC_HIPRTC, hiprtcGetCode, 0)
OUTPUT(RTC_HIPRTC, hiprtcGetBitcode, 1)
OUTPUT(RTC_HIPRTC, hiprtcGetProgramLog, RTC_OUTPUTS_MAX)

DEFINE(RTC_COMGR, amd_comgr_do_action,
       (int kind, struct comgr_handle info, struct comgr_handle inputs,
        struct comgr_handle results),
       comgr_act(l, &(struct comgr_call){ kind, info, inputs, results }),
       (kind, info, inputs, results))
DEFINE(RTC_COMGR, amd_comgr_create_action_info, (struct comgr_handle * ret_info),
       comgr_create_info(l, ret_info), (ret_info))
DEFINE(RTC_COMGR, amd_comgr_destroy_action_info, (struct comgr_handle info),
       comgr_destroy_info(l, info), (info))
DEFINE(RTC_COMGR, amd_comgr_action_info_set_isa_name, (struct comgr_handle info, const char *isa),
       comgr_set_isa(l, info, isa), (info, isa))
DEFINE(RTC_COMGR, amd_comgr_action_info_set_working_directory_path,
       (struct comgr_handle info, const char *path), comgr_set_directory(l, info, path),
       (info, path))
DEFINE(RTC_COMGR, amd_comgr_action_info_set_device_lib_linking,
       (struct comgr_handle info, bool links),
       l->comgr.wrapped.set_device_libraries ? comgr_set_device_libraries(l, info, links)
                                             : COMGR_ERROR,
       (info, links))
DEFINE(RTC_COMGR, amd_comgr_action_info_set_vfs, (struct comgr_handle info, bool is_used),
       l->comgr.wrapped.set_vfs ? comgr_set_vfs(l, info, is_used) : COMGR_ERROR, (info, is_used))
