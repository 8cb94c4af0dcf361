/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes a package: the same entries give the same bytes.
 *
 * Ownership  borrows each entry for the call
 * Threading  one thread at a time for each writer
 */
#include "engine/package/package.h"

struct package_writer;

struct package_entry {
    struct bytes name, args; /* by which it is found (package_kernel_name, package_kernel_args) */
    struct bytes raw;        /* the code object */
    /* A KDB has no room for the rest. */
    struct digest key, toolchain_id; /* zeros: none */
    struct bytes target, toolchain, program, options, source;
    uint32_t header_count;
    struct bytes headers; /* header_count x message_header */
};

/* |path| must not exist. */
KILN_MUST_CHECK enum kiln_code package_writer_create(const char *path, enum package_format format,
                                                     struct package_writer **ret_writer,
                                                     struct kiln_err *err);
/* Abandons and removes the file unless it was finished. */
void package_writer_destroy(struct package_writer *writer);
KILN_DEFINE_AUTO(package_writer)
/* In the order of (name, args), compared as bytes; KILN_INVALID otherwise, for repeats of both or
 * of a key, for an empty name or object and for texts with a NUL in them.  Compile times are not
 * written: they differ from run to run.  After a failure the writer is only good for being
 * destroyed. */
KILN_MUST_CHECK enum kiln_code package_writer_add(struct package_writer *writer,
                                                  const struct package_entry *entry,
                                                  struct kiln_err *err);
/* Commits and syncs; the writer is only good for being destroyed afterwards. */
KILN_MUST_CHECK enum kiln_code package_writer_finish(struct package_writer *writer,
                                                     struct kiln_err *err);
