/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is fetched: made-up objects whose key and bytes follow from (kind, size, index).
 *
 * Threading  pure functions, but content_store, which writes a kernels.db
 */
#include "common/digest.h"
#include "common/err.h"

enum content_kind {
    CONTENT_RANDOM, /* does not compress */
    CONTENT_POOR,   /* compresses badly: 7 random bits a byte */
    CONTENT_CODE,   /* about 3:1, as MIOpen's kernels do on the average */
};

struct content {
    enum content_kind kind;
    size_t size;  /* bytes of one object */
    size_t count; /* of objects */
    size_t touch; /* bytes from its start that a reader looks at; 0: all */
};

const char *content_kind_name(enum content_kind kind); /* "random", "poor", "code" */
/* Fills content->size bytes. */
void content_make(const struct content *content, size_t index, uint8_t *bytes);
struct digest content_key(const struct content *content, size_t index);

/* Puts every object into the kernels.db of |directory|, which no daemon may have open. */
KILN_MUST_CHECK enum kiln_code content_store(const struct content *content, const char *directory,
                                             struct kiln_err *err);
/* A sealed memfd of one object; the caller's. */
KILN_MUST_CHECK enum kiln_code content_memfd(const struct content *content, size_t index,
                                             int *ret_fd, struct kiln_err *err);
/* Reads one byte of every page of |bytes|, as a runtime that reads the object would at least, up to
 * content->touch. */
uint64_t content_touch(const struct content *content, const void *bytes);
