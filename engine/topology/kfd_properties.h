/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads the property files of KFD's sysfs. Each line is a name, a blank and a decimal number.
 *
 * Ownership  plain values
 * Threading  any thread
 */
#include "common/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct kfd_property {
    const char *name;
    size_t offset; /* of a uint64_t in the struct that receives the numbers */
};

struct kfd_properties {
    const struct kfd_property *rows;
    size_t count;
    void *numbers; /* the struct that receives the numbers; zeroed by the caller */
    unsigned seen; /* bit i is set if the file has the property rows[i] */
};

/* Skips properties that are not in |properties|->rows. Returns KILN_INVALID if a number is
 * malformed or a name is repeated. |ret_errno| receives errno if the file could not be opened or
 * read, otherwise 0. */
KILN_MUST_CHECK enum kiln_code kfd_properties_read(const char *path,
                                                   struct kfd_properties *properties,
                                                   int *ret_errno, struct kiln_err *err);
/* Accepts only decimal digits with a value of at most |max|. */
bool kfd_parse_number(const char *text, size_t size, uint64_t max, uint64_t *ret_value);
