/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The result of a successful compile, as it is stored: all outputs, lowered names and the log.
 *
 * Role       collects it from the real library, writes it as bytes, reads it back. The bytes come
 *            from a file that any program of the user may have written, so reading checks them
 * Ownership  a result owns its bytes
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "libclient/rtc/api.h"

#include <kiln/kernel.h>

struct rtc_result {
    struct kiln_kernel *kernel;            /* owned: holds the bytes; NULL: nothing is stored */
    struct bytes outputs[RTC_OUTPUTS_MAX]; /* borrowed from |kernel|, as the others */
    uint32_t present;                      /* bits of the outputs that the library returned */
    struct bytes log;                      /* as the library returned it */
    struct bytes names; /* pairs of sized texts: an expression and its lowered name, terminated */
};

/* Asks the real library for everything. False if it cannot be stored: a function failed. */
bool rtc_result_collect(const struct rtc_library *library, void *program, struct bytes expressions,
                        struct buffer *to);
/* Takes |kernel|. KILN_CORRUPT: its bytes are no result; |ret_result| is zeroed then. */
KILN_MUST_CHECK enum kiln_code rtc_result_read(struct kiln_kernel *kernel,
                                               struct rtc_result *ret_result, struct kiln_err *err);
void rtc_result_done(struct rtc_result *result);
/* NULL: the compile was done without this expression. */
const char *rtc_result_lowered(const struct rtc_result *result, const char *expression);
