/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The run-time compilers that libkiln-rtc stands in front of: NVRTC and hiprtc have the same calls
 * under different names.
 *
 * Role       finds the real functions of each library that the process has loaded, and gives each
 *            library wrappers of its own, because a process may have several versions
 * Ownership  libraries live as long as the process
 * Threading  any thread
 */
#include "common/base/digest.h"

#include <stdbool.h>
#include <stddef.h>

enum { RTC_OUTPUTS_MAX = 4 };

typedef int rtc_size_fn(void *program, size_t *ret_size);
typedef int rtc_get_fn(void *program, char *ret_bytes);

/* One kind of output, such as PTX: its two functions. */
struct rtc_output {
    rtc_size_fn *size;
    rtc_get_fn *get;
};

/* The functions of a real library that are wrapped. */
struct rtc_functions {
    int (*create)(void **ret_program, const char *source, const char *name, int header_count,
                  const char *const *headers, const char *const *header_names);
    int (*destroy)(void **program);
    int (*add_name)(void *program, const char *expression);
    int (*compile)(void *program, int option_count, const char *const *options);
    int (*lowered)(void *program, const char *expression, const char **ret_name);
    struct rtc_output log;
    struct rtc_output outputs[RTC_OUTPUTS_MAX]; /* zeroed: the library has no such output */
};

enum rtc_kind { RTC_NVRTC, RTC_HIPRTC, RTC_KINDS };

struct rtc_library {
    const void *base; /* address of the mapped file; NULL: the slot is free */
    const void *end;  /* of its code, if it opens files itself; NULL: other libraries do it */
    enum rtc_kind kind;
    struct rtc_functions real;
    char name[32]; /* "nvrtc 13.0" */
    /* SHA-256 over the build ids of the library and of the files that it compiles with. */
    struct digest identity;
    const char *trouble; /* why its compiles are not served; NULL: they are */
};

/* The number of a wrapped function with this name, or -1. */
int rtc_function_number(const char *name);
/* The wrapper for |real|, the function of this number in some library. |real| itself if there is no
 * wrapper left for another library. */
void *rtc_wrapper_of(int number, void *real);
/* The library for calls that were linked, not looked up. |caller|: an address in the code that
 * calls. NULL: no library of the kind is loaded. */
struct rtc_library *rtc_linked_library(enum rtc_kind kind, const void *caller);
