/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What hiprtc and NVRTC have in common: the same calls under two names.
 *
 * Role       all of both back ends but names, symbols and options
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
    int (*destroy)(void **program);
    int (*version)(int *major, int *minor);
    const char *(*error_text)(int result);
};

/* What the two do not share. */
struct rtc_kind {
    const struct compiler_ops *ops;
    const char *what;          /* "NVRTC": for people */
    const char *root_variable; /* names where the vendor's software is, and */
    const char *root;          /* where it is without that */
    const char *below;         /* the libraries' directory in it */
    const char *const *names;  /* of the library, as library_search.names */
    const char *advice;        /* as library_search.advice */
    const struct library_symbol *symbols;
    size_t symbol_count;
    const char *const *deciding; /* as identity_put_loaded: libraries that decide the output */
    const char *first_target;    /* of the compile that makes it load all of them */
    /* Everything the compiler is to be told, for |job| and |target|. */
    void (*add_options)(struct arguments *options, const struct compile_job *job,
                        const struct target *target);
};

/* |kind| is static.  The back end's open; the others go into its compiler_ops as they are. */
KILN_MUST_CHECK enum kiln_code rtc_open(const struct rtc_kind *kind, struct compiler **ret_compiler,
                                        struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code rtc_describe(struct compiler *compiler,
                                            struct toolchain *ret_toolchain, struct kiln_err *err);
enum compile_end rtc_compile(struct compiler *compiler, const struct compile_job *job,
                             const struct target *target, struct buffer *ret_object,
                             struct kiln_err *err);
void rtc_close(struct compiler *compiler);
