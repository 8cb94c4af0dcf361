/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes a kernel cache of MIOpen from the store's kernels.
 *
 * Role       writes in steps of a few milliseconds, so that an export of many or large kernels
 *            delays only its own user
 * Ownership  owns the file until cache_writer_finish
 * Threading  one thread at a time for each cache_writer
 */
#include "engine/store/kernel_store.h"

/* Limits of a step. A step may exceed them, because it cannot end while libbz2 packs 900 KB, or
 * while the store reads an object. */
#define CACHE_WRITER_STEP_NS 20000000u
#define CACHE_WRITER_STEP_BYTES (4u << 20)

struct cache_writer;

struct cache_writer_options { /* borrowed until the writer is destroyed */
    struct kernel_store *store;
    const char *path;
    uint32_t uid;
    const char *database_id;
    /* Called for each kernel that failed its check and is not in the file. */
    void (*damaged)(void *context, const struct digest *key);
    void *context;
};

KILN_MUST_CHECK enum kiln_code cache_writer_open(const struct cache_writer_options *options,
                                                 struct cache_writer **ret_writer,
                                                 struct kiln_err *err);
/* Removes the file unless it was finished. Accepts NULL. */
void cache_writer_destroy(struct cache_writer *writer);
KILN_DEFINE_AUTO(cache_writer)

/* Does one step. Ends it before an object that needs more memory than cache_writer_grant
 * allowed. */
KILN_MUST_CHECK enum kiln_code cache_writer_write(struct cache_writer *writer,
                                                  struct kiln_err *err);
bool cache_writer_is_over(const struct cache_writer *writer);
/* Returns how much memory the next large object needs, or the one that is being packed. Returns 0
 * if there is no such object. */
uint64_t cache_writer_bytes(const struct cache_writer *writer);
/* Sets the memory that large objects may use. It is 0 until the first call. */
void cache_writer_grant(struct cache_writer *writer, uint64_t bytes);
uint64_t cache_writer_kernels(const struct cache_writer *writer);
KILN_MUST_CHECK enum kiln_code cache_writer_finish(struct cache_writer *writer,
                                                   struct kiln_err *err);
