/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors that a hostile client may send in place of a file: some are not files, some never
 * end, some cannot be read, some change while they are read.
 *
 * Ownership  the caller owns an opened descriptor
 */
#include <stdbool.h>
#include <stddef.h>

struct hostile_descriptor {
    const char *name;
    int (*open)(void); /* -1: this kernel has none, or lets nobody send it */
    bool is_regular;   /* fstat(2) reports a regular file, so its content decides */
};

extern const struct hostile_descriptor hostile_descriptors[];
extern const size_t hostile_descriptor_count;
