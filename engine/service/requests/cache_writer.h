/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes a kernel cache of MIOpen from the store's kernels.
 *
 * Role       writes one file in steps that end after a few milliseconds, so that an export of many
 *            or large kernels delays only its own user
 * Ownership  owns the file until cache_writer_finish
 * Threading  one thread at a time for each cache_writer
 */
#include "engine/store/kernel_store.h"

/* A step ends after this time, or when it has packed this many bytes. It cannot end during a call
 * of libbz2, which packs 900 KB at a time, or of the store, which reads and checks a whole
 * object. */
#define CACHE_WRITER_STEP_NS 20000000u
#define CACHE_WRITER_STEP_BYTES (4u << 20)

struct cache_writer;

struct cache_writer_options { /* borrowed until the writer is destroyed */
    struct kernel_store *store;
    const char *path; /* must not exist */
    uint32_t uid;     /* the user who may fetch the kernels */
    const char *database_id;
    /* Called for each kernel that failed its check; it is left out of the file. */
    void (*damaged)(void *context, const struct digest *key);
    void *context;
};

KILN_MUST_CHECK enum kiln_code cache_writer_open(const struct cache_writer_options *options,
                                                 struct cache_writer **ret_writer,
                                                 struct kiln_err *err);
/* Removes the file unless it was finished. Accepts NULL. */
void cache_writer_destroy(struct cache_writer *writer);
KILN_DEFINE_AUTO(cache_writer)

/* Writes kernels for one step. The step ends early before an object that needs more memory than was
 * granted. */
KILN_MUST_CHECK enum kiln_code cache_writer_write(struct cache_writer *writer,
                                                  struct kiln_err *err);
/* Returns whether all kernels were written. */
bool cache_writer_is_over(const struct cache_writer *writer);
/* Returns the memory that is needed for the large object that is being packed or that comes next; 0
 * if there is none. */
uint64_t cache_writer_bytes(const struct cache_writer *writer);
/* Sets how many bytes of memory large objects may use; at first 0. */
void cache_writer_grant(struct cache_writer *writer, uint64_t bytes);
/* Returns the number of kernels in the file. */
uint64_t cache_writer_kernels(const struct cache_writer *writer);
/* Completes the file; call it once, at the end. */
KILN_MUST_CHECK enum kiln_code cache_writer_finish(struct cache_writer *writer,
                                                   struct kiln_err *err);
