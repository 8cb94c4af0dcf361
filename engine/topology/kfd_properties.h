/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files of KFD's sysfs: a line is a name, a blank, a decimal number.
 *
 * Ownership  plain values
 * Threading  any thread
 */
#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

struct kfd_property {
    const char *name;
    size_t offset; /* of its uint64_t */
};

/* Reads the file |path| into the numbers that |rows| (at most 32) name, which the caller zeroed;
 * names that no row has are passed over.  Bit i of *ret_seen: row i was there.  KILN_INVALID for a
 * number that makes no sense or is there twice; *ret_errno is errno where opening or reading
 * failed, else 0. */
KILN_MUST_CHECK enum kiln_code kfd_properties_read(const char *path,
                                                   const struct kfd_property *rows, size_t count,
                                                   void *numbers, unsigned *ret_seen,
                                                   int *ret_errno, struct kiln_err *err);
/* Digits and nothing else, at most |most|. */
bool kfd_parse_number(const char *text, size_t size, uint64_t most, uint64_t *ret_value);
