/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The stored form of the result of a successful compile: all outputs, lowered names and the log.
 *
 * Role       collects a result from the real library and writes it as bytes; reads such bytes, and
 *            checks them, because any program may have sent them to kilnd
 * Ownership  a result owns its bytes
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "libclient/rtc/api.h"

#include <kiln/kernel.h>

struct rtc_result {
    struct kiln_kernel *kernel;               /* holds the bytes; NULL if nothing is stored */
    struct bytes outputs[RTC_OUTPUTS_STORED]; /* borrowed from |kernel|, like |log| and |names| */
    uint32_t present;                         /* bit i is set if the library returned output i */
    struct bytes log;
    /* owns the bytes of |log| if the program's name was inserted into them */
    struct buffer own_log;
    /* pairs of sized texts including their NUL: an expression and its lowered name */
    struct bytes names;
};

/* Gets the result from the real library.  If |name| is not NULL, the log is stored without this
 * name, which rtc_result_read inserts again.  Returns false if a part of the result cannot be
 * stored. */
bool rtc_result_collect(const struct rtc_library *library, void *program, struct bytes expressions,
                        const char *name, struct buffer *to);
/* Reads a stored result for the program |name|.  Takes ownership of |kernel|, even on failure.  If
 * the kernel's bytes are not a result, returns KILN_CORRUPT and zeroes |ret_result|. */
KILN_MUST_CHECK enum kiln_code rtc_result_read(struct kiln_kernel *kernel, const char *name,
                                               struct rtc_result *ret_result, struct kiln_err *err);
void rtc_result_done(struct rtc_result *result);
/* Returns NULL if the compile did not have this name expression. */
const char *rtc_result_lowered(const struct rtc_result *result, const char *expression);
