/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Wraps comgr and the run-time compilers NVRTC and hiprtc.  NVRTC and hiprtc have the same calls
 * under different names.
 *
 * Role       finds the real functions of each such library in the process.  Each library has its
 *            own wrappers, because a process may have several versions
 * Ownership  libraries live as long as the process
 * Threading  any thread
 */
#include "common/base/digest.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The outputs from RTC_OUTPUTS_STORED on are never stored: if the program asks for one of them, the
 * real library compiles. */
enum { RTC_OUTPUTS_STORED = 4, RTC_OUTPUTS_MAX = 6, RTC_FILES_MAX = 8 };

typedef int rtc_size_fn(void *program, size_t *ret_size);
typedef int rtc_get_fn(void *program, char *ret_bytes);
/* NVRTC calls this function of the application while it compiles.  If the function returns 1, the
 * compile ends. */
typedef int rtc_callback_fn(void *payload, void *reserved);

struct rtc_output {
    rtc_size_fn *size;
    rtc_get_fn *get;
};

/* The wrapped functions of NVRTC or hiprtc: either the functions of a real library, or
 * libkiln-rtc's wrappers of them. */
struct rtc_functions {
    int (*create)(void **ret_program, const char *source, const char *name, int header_count,
                  const char *const *headers, const char *const *header_names);
    int (*destroy)(void **program);
    int (*add_name)(void *program, const char *expression);
    int (*compile)(void *program, int option_count, const char *const *options);
    int (*lowered)(void *program, const char *expression, const char **ret_name);
    struct rtc_output log;
    /* an element is zeroed if the library has no such output */
    struct rtc_output outputs[RTC_OUTPUTS_MAX];
    /* NULL if the library has no such function */
    int (*set_callback)(void *program, rtc_callback_fn *callback, void *payload);
};

/* Every object type of comgr's interface is a struct like this one. */
struct comgr_handle {
    uint64_t value;
};

/* The wrapped functions of comgr: either the functions of a real library, or libkiln-rtc's wrappers
 * of them. */
struct comgr_wrapped {
    int (*act)(int kind, struct comgr_handle info, struct comgr_handle inputs,
               struct comgr_handle results);
    int (*create_info)(struct comgr_handle *ret_info);
    int (*destroy_info)(struct comgr_handle info);
    int (*set_isa)(struct comgr_handle info, const char *isa);
    int (*set_directory)(struct comgr_handle info, const char *path);
    int (*set_device_libraries)(struct comgr_handle info, bool links); /* NULL before comgr 2.9 */
    int (*set_vfs)(struct comgr_handle info, bool is_used);            /* NULL before comgr 3.1 */
};

struct comgr_functions {
    struct comgr_wrapped wrapped;
    void (*version)(size_t *ret_major, size_t *ret_minor);
    int (*language)(struct comgr_handle info, int *ret_language);
    int (*logging)(struct comgr_handle info, bool *ret_logging);
    /* fails if the options were not given as a list */
    int (*option_count)(struct comgr_handle info, size_t *ret_count);
    int (*option)(struct comgr_handle info, size_t index, size_t *size, char *ret_option);
    /* NULL in comgr 3 */
    int (*option_text)(struct comgr_handle info, size_t *size, char *ret_options);
    int (*data_count)(struct comgr_handle set, int kind, size_t *ret_count);
    int (*find_data)(struct comgr_handle set, int kind, size_t index, struct comgr_handle *ret);
    int (*add_data)(struct comgr_handle set, struct comgr_handle data);
    int (*remove_data)(struct comgr_handle set, int kind);
    int (*create_data)(int kind, struct comgr_handle *ret_data);
    int (*release_data)(struct comgr_handle data);
    int (*get_bytes)(struct comgr_handle data, size_t *size, char *ret_bytes);
    int (*get_name)(struct comgr_handle data, size_t *size, char *ret_name);
    int (*set_bytes)(struct comgr_handle data, size_t size, const char *bytes);
    int (*set_name)(struct comgr_handle data, const char *name);
    int (*set_bytes_from_file)(struct comgr_handle data, int file, uint64_t at, uint64_t size);
};

enum rtc_kind { RTC_NVRTC, RTC_HIPRTC, RTC_COMGR, RTC_KINDS };

struct rtc_range {
    const char *begin, *end;
};

struct rtc_library {
    const void *base; /* address of the mapped file; NULL: the slot is free */
    /* how many libraries the process had unloaded when this library was found */
    unsigned long long unloads;
    enum rtc_kind kind;
    struct rtc_functions real;
    struct comgr_functions comgr;
    /* The members below are set when the process creates the first program, because hiprtc loads
     * its compiler only then.  For comgr, these members are set at the first action. */
    bool is_identified;
    /* Addresses of the code of the library, and of the libraries with which it compiles. */
    struct rtc_range code[RTC_FILES_MAX];
    /* increased after the range is written, because readers take no lock */
    _Atomic size_t code_count;
    char name[32];
    /* SHA-256 over the build ids of the library and of the files that it compiles with. */
    struct digest identity;
    _Atomic uint64_t lacking_until_ns; /* before this time, kilnd is assumed to lack this library */
    const char *trouble; /* why kilnd does not answer compiles of this library, or NULL */
    /* options that the library also uses for the programs after (key_kept_options) */
    _Atomic unsigned kept_options;
};

/* Returns an address inside the library: that of a function which every library of this kind
 * has. */
void *rtc_first_function(const struct rtc_library *library);
/* Returns whether |comgr| has all functions that libkiln-rtc needs to answer its compiles with
 * kilnd's results. */
bool rtc_has_all_functions(const struct rtc_library *comgr);
/* Sets |code|, |name|, |identity| and |trouble|.  These members do not change once |is_identified|
 * is set. */
void rtc_identify(struct rtc_library *library);
bool rtc_is_compiler_code(const void *address);
/* Returns -1 if no wrapped function has this name. */
int rtc_function_number(const char *name);
/* Returns the wrapper for |real|, which is function |number| of a library.  Returns |real| if the
 * library cannot be wrapped, for example because no slot is left.  If |real| is a function of
 * libkiln-rtc, uses the next library's function instead, or returns NULL if there is none. */
void *rtc_wrapper_of(int number, void *real);
/* Returns the library for a call of a function that was linked, not looked up with dlsym.  |caller|
 * is an address in the calling code.  Returns NULL if there is no library of the kind, or if the
 * library cannot be wrapped. */
struct rtc_library *rtc_linked_library(enum rtc_kind kind, const void *caller);
