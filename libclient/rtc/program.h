/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The table of this process's programs (nvrtcProgram, hiprtcProgram).
 *
 * Role       the caller's handle is the real library's handle of the program.  For each handle, the
 *            table has a struct rtc_program, which keeps the inputs and, if there is one, the
 *            stored result.  If the caller asks for something that the stored result lacks, the
 *            real library compiles the program after all
 * Ownership  the table owns each struct rtc_program, from create to destroy
 * Threading  any thread; calls for one program must not overlap, as the libraries require
 */
#include "common/base/bytes.h"
#include "common/base/hash_table.h"
#include "libclient/rtc/api.h"
#include "libclient/rtc/device.h"
#include "libclient/rtc/result.h"

struct rtc_header {
    char *name;
    char *text;
};

struct rtc_program {
    struct hash_link link;
    struct rtc_library *library;
    void *handle; /* the real library's handle of the program */
    char *source;
    struct digest source_digest; /* set before the first look-up */
    char *name;
    struct rtc_header *headers;
    size_t header_count;
    struct buffer expressions; /* name expressions, as sized texts in the order of the calls */
    /* for comgr: inputs of the action that no other member of this struct holds */
    struct buffer action;
    char **options;
    size_t option_count;
    /* The architecture of the current device, for which hiprtc compiles if no option names an
     * architecture.  "" if an option names one, or if the device's architecture is not known. */
    char architecture[DEVICE_ARCHITECTURE_MAX];
    /* the result of the last compile may depend on the program's name without containing it */
    bool expands_name;
    bool has_callback; /* a function of the caller may end the compile */
    bool is_incomplete;
    uint64_t wanted_ns; /* when the application requested the compile */
    /* While |is_stored| is true, later calls get their answers from this result.  Afterwards, it is
     * only kept for lowered names that the caller may still use. */
    struct rtc_result result;
    bool is_stored; /* |result| came from kilnd and the real library did not compile */
};

/* Does not free the struct itself. */
void rtc_program_done(struct rtc_program *program);

struct rtc_inputs {
    const char *source, *name;
    int header_count;
    const char *const *headers, *const *header_names;
};

/* The rtc_* functions do what the real functions do, but use results from kilnd if there are
 * any. */
int rtc_create(struct rtc_library *library, void **ret_program, const struct rtc_inputs *inputs);
int rtc_destroy(struct rtc_library *library, void **program);
int rtc_add_name(struct rtc_library *library, void *program, const char *expression);
int rtc_compile(struct rtc_library *library, void *program, int option_count,
                const char *const *options);
int rtc_lowered(struct rtc_library *library, void *program, const char *expression,
                const char **ret_name);
int rtc_set_callback(struct rtc_library *library, void *program, rtc_callback_fn *callback,
                     void *payload);
/* |output| is an index in rtc_functions.outputs, or RTC_OUTPUTS_MAX for the log. */
int rtc_output_size(struct rtc_library *library, int output, void *program, size_t *ret_size);
int rtc_output_get(struct rtc_library *library, int output, void *program, char *ret_bytes);
