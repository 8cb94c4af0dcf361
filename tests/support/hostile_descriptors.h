/* SPDX-License-Identifier: MIT */
#pragma once

/* Descriptors that a hostile client may send in place of a file. Some are not files, some are
 * endless, some cannot be read, and some change while they are read. The caller owns an opened
 * descriptor. */
#include <stdbool.h>
#include <stddef.h>

struct hostile_descriptor {
    const char *name;
    /* returns -1 if this Linux has no such descriptors or refuses to send them */
    int (*open)(void);
    /* whether fstat(2) reports a regular file, so that only its content can be wrong */
    bool is_regular;
};

extern const struct hostile_descriptor hostile_descriptors[];
extern const size_t hostile_descriptor_count;
