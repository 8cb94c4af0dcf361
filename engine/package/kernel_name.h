/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names of kiln's own kernels in MIOpen's schema.
 *
 *   name  "<program>.<12 hexadecimal digits>.o"; the digits are the beginning of the SHA-256 over
 *         the source, its headers and COMPILE_ABI. So a package made from an older source never
 *         answers a request for a newer source
 *   args  "<options> -mcpu=<arch>", as MIOpen writes them; only "<options>" for targets that are
 *         not AMD's
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"
#include "common/target/target.h"

struct package_source {
    struct bytes program;
    struct bytes options;
    struct bytes source;
    uint32_t header_count;
    struct bytes headers; /* header_count x message_header, in any order */
    uint32_t abi;
};

/* Both functions append to the buffer. They return KILN_INVALID if the program's name is empty or
 * too long, if a text contains a NUL, or if the headers are truncated. */
KILN_MUST_CHECK enum kiln_code package_kernel_name(const struct package_source *source,
                                                   struct buffer *ret_name, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code package_kernel_args(const struct package_source *source,
                                                   const struct target *target,
                                                   struct buffer *ret_args, struct kiln_err *err);
