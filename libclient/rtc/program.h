/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What this library knows about each program (nvrtcProgram, hiprtcProgram) of the process.
 *
 * Role       the caller has the real library's program. A shadow of it keeps the inputs, so that
 *            its compile can be looked up, and the stored result if there is one. What the stored
 *            result cannot answer is compiled now by the real library
 * Ownership  shadows belong to the table, from create to destroy
 * Threading  any thread; calls for one program must not overlap, as the libraries require
 */
#include "common/base/bytes.h"
#include "common/base/hash_table.h"
#include "libclient/rtc/api.h"
#include "libclient/rtc/result.h"

struct rtc_header {
    char *name; /* owned, as |text| */
    char *text;
};

struct rtc_program {
    struct hash_link link;
    struct rtc_library *library; /* borrowed */
    void *handle;                /* the real library's */
    char *source;                /* owned, as all texts below */
    char *name;                  /* NULL: the caller gave none */
    struct rtc_header *headers;
    size_t header_count;
    struct buffer expressions; /* sized texts, in the order of the calls */
    char **options;            /* of the last compile */
    size_t option_count;
    bool is_incomplete;       /* memory ran out, so the inputs are not complete */
    struct rtc_result result; /* owned; answers the getters while |is_stored| */
    bool is_stored;           /* the real library has not compiled it; |result| has the answer */
};

struct rtc_inputs { /* the arguments of nvrtcCreateProgram; borrowed */
    const char *source, *name;
    int header_count;
    const char *const *headers, *const *header_names;
};

/* The functions that programs call. */
int rtc_create(struct rtc_library *library, void **ret_program, const struct rtc_inputs *inputs);
int rtc_destroy(struct rtc_library *library, void **program);
int rtc_add_name(struct rtc_library *library, void *program, const char *expression);
int rtc_compile(struct rtc_library *library, void *program, int option_count,
                const char *const *options);
int rtc_lowered(struct rtc_library *library, void *program, const char *expression,
                const char **ret_name);
/* |output|: an index, or RTC_OUTPUTS_MAX for the log. */
int rtc_output_size(struct rtc_library *library, int output, void *program, size_t *ret_size);
int rtc_output_get(struct rtc_library *library, int output, void *program, char *ret_bytes);
