/* SPDX-License-Identifier: MIT */
#pragma once

/* Made-up objects to fetch.  An object's key and bytes are computed from its kind, size and index.
 *
 * Threading  pure functions, except content_store, which writes a kernels.db */
#include "common/base/digest.h"
#include "common/base/err.h"

enum content_kind {
    CONTENT_RANDOM, /* cannot be compressed */
    CONTENT_POOR,   /* 7 random bits in each byte */
    CONTENT_CODE,   /* compresses to about a third, as MIOpen's kernels do on average */
};

struct content {
    enum content_kind kind;
    size_t size;
    size_t count;
    size_t touch; /* number of bytes, from an object's start, that a client touches; 0 means all */
};

const char *content_kind_name(enum content_kind kind);
void content_make(const struct content *content, size_t index, uint8_t *bytes);
struct digest content_key(const struct content *content, size_t index);

/* Stores all objects in a kernels.db in |directory|, which no running kilnd may use. */
KILN_MUST_CHECK enum kiln_code content_store(const struct content *content, const char *directory,
                                             struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code content_memfd(const struct content *content, size_t index,
                                             int *ret_fd, struct kiln_err *err);
/* Reads one byte in each page of the object's first content->touch bytes. A GPU runtime that loads
 * the object reads at least as much. */
uint64_t content_touch(const struct content *content, const void *bytes);
