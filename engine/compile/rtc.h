/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What hiprtc and NVRTC have in common: the same calls under two names.
 *
 * Ownership  the table belongs to its back end; programs live for one rtc_compile
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

/* Compiles |job| with |options|; see compiler_ops.compile. */
enum compile_end rtc_compile(const struct rtc_library *library, const struct compile_job *job,
                             struct arguments *options, struct buffer *ret_object,
                             struct kiln_err *err);
