/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors that nobody should be sent: what is no file, what never ends, what cannot be read,
 * what may change under whoever reads it.
 *
 * Ownership  an opened one is the caller's
 */
#include <stdbool.h>
#include <stddef.h>

struct hostile_descriptor {
    const char *name;
    int (*open)(void); /* -1: this kernel has none, or lets nobody send it */
    bool is_regular;   /* a regular file to fstat(2), so that its content decides */
};

extern const struct hostile_descriptor hostile_descriptors[];
extern const size_t hostile_descriptor_count;
