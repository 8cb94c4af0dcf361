/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The result of a successful compile, as it is stored: all outputs, lowered names and the log.
 *
 * Role       collects a result from the real library and writes it as bytes; reads such bytes. Any
 *            program of the user may have written the bytes that are read, so they are checked
 * Ownership  a result owns its bytes
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "libclient/rtc/api.h"

#include <kiln/kernel.h>

struct rtc_result {
    struct kiln_kernel *kernel;            /* owned: holds the bytes; NULL: nothing is stored */
    struct bytes outputs[RTC_OUTPUTS_MAX]; /* borrowed from |kernel|, as are |log| and |names| */
    uint32_t present;                      /* bit i is set if the library returned output i */
    struct bytes log;                      /* as the library returned it */
    struct bytes names; /* pairs of sized texts with NUL: an expression, then its lowered name */
};

/* Gets the result from the real library.  Returns false if not all of it can be stored. */
bool rtc_result_collect(const struct rtc_library *library, void *program, struct bytes expressions,
                        struct buffer *to);
/* Takes ownership of |kernel|, also on failure.  Returns KILN_CORRUPT, with |ret_result| zeroed, if
 * its bytes are not a result. */
KILN_MUST_CHECK enum kiln_code rtc_result_read(struct kiln_kernel *kernel,
                                               struct rtc_result *ret_result, struct kiln_err *err);
void rtc_result_done(struct rtc_result *result);
/* Returns the lowered name, or NULL if the compile did not have this name expression. */
const char *rtc_result_lowered(const struct rtc_result *result, const char *expression);
