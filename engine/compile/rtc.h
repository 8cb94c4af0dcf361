/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The common part of hiprtc and NVRTC, which have the same functions with different names.
 *
 * Role       implements both back ends, except for names, symbols and options
 * Ownership  rtc_open / rtc_close; programs live for one rtc_compile
 * Threading  one thread
 */
#include "engine/compile/arguments.h"
#include "engine/compile/compiler.h"
#include "engine/compile/library.h"

struct rtc_library {
    int (*create)(void **program, const char *source, const char *name, int header_count,
                  const char *const *headers, const char *const *header_names);
    int (*compile)(void *program, int option_count, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *log);
    int (*code_size)(void *program, size_t *size);
    int (*code)(void *program, char *code);
    /* Each member from here to |optixir| is NULL if the library lacks that function. Jobs with
     * |is_program| need add_name and lowered; with NVRTC, they also need ptx_size and ptx. */
    int (*add_name)(void *program, const char *expression);
    int (*lowered)(void *program, const char *expression, const char **name);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *ptx);
    int (*ltoir_size)(void *program, size_t *size);
    int (*ltoir)(void *program, char *ltoir);
    int (*optixir_size)(void *program, size_t *size);
    int (*optixir)(void *program, char *optixir);
    int (*destroy)(void **program);
    int (*version)(int *major, int *minor);
    const char *(*error_text)(int result);
};

struct rtc_kind {
    const struct compiler_ops *ops;
    const char *what;
    const char *root_variable; /* environment variable with the installation directory */
    const char *root;
    const char *below;
    const char *const *names;
    /* File name of a library of builtins, such as "NAME.so"; NULL: none. NAME.so.MAJOR.MINOR is
     * loaded before the compiler needs it. */
    const char *builtins;
    const char *advice;
    const struct library_symbol *symbols;
    const char *const *deciding;
    /* Prefixes of the file names of the compiler's other libraries. libkiln-rtc identifies the
     * compiler by the build ids of its main library and of these libraries. */
    const char *const *parts;
    /* A result that contains one of these texts may depend on the directory of the compile. */
    const char *const *path_marks;
    /* The target for which a probe is compiled, so that the compiler's main library loads the other
     * libraries that it needs. */
    const char *first_target;
    void (*add_options)(struct arguments *options, const struct compile_job *job,
                        const struct target *target);
};

/* Implements the |open| of a back end. |kind| must be static. The back end's compiler_ops contain
 * rtc_describe, rtc_compile and rtc_close directly, and an open function that calls rtc_open. */
KILN_MUST_CHECK enum kiln_code rtc_open(const struct rtc_kind *kind, struct compiler **ret_compiler,
                                        struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code rtc_describe(struct compiler *compiler,
                                            struct toolchain *ret_toolchain, struct kiln_err *err);
enum compile_end rtc_compile(struct compiler *compiler, const struct compile_job *job,
                             const struct target *target, struct buffer *ret_object,
                             struct kiln_err *err);
void rtc_close(struct compiler *compiler);
