/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes a package. The same entries always give the same bytes.
 *
 * Ownership  borrows each entry for the call
 * Threading  one thread at a time for each writer
 */
#include "engine/package/package.h"

struct package_writer;

struct package_entry {
    struct bytes name, args; /* for look-ups (package_kernel_name, package_kernel_args) */
    struct bytes raw;
    /* A KDB does not store the members from here on. */
    struct digest key, toolchain_id; /* zeros: the kernel has none */
    struct bytes target, toolchain, program, options, source;
    uint32_t header_count;
    struct bytes headers; /* header_count x message_header */
};

/* |path| must not exist. */
KILN_MUST_CHECK enum kiln_code package_writer_create(const char *path, enum package_format format,
                                                     struct package_writer **ret_writer,
                                                     struct kiln_err *err);
/* Frees the writer, and removes the file unless package_writer_finish has succeeded. */
void package_writer_destroy(struct package_writer *writer);
KILN_DEFINE_AUTO(package_writer)
/* Entries must be sorted by name, then by arguments, both compared as bytes. Returns
 * KILN_INVALID if the order is wrong; if the key, or the name with these arguments, was added
 * before; if the name or object is empty; or if a text contains a NUL. Compile times are not
 * written, because they differ from run to run. After a failure, the writer can only be
 * destroyed. */
KILN_MUST_CHECK enum kiln_code package_writer_add(struct package_writer *writer,
                                                  const struct package_entry *entry,
                                                  struct kiln_err *err);
/* Does not sync to the disk. Afterwards the writer can only be destroyed. */
KILN_MUST_CHECK enum kiln_code package_writer_finish(struct package_writer *writer,
                                                     struct kiln_err *err);
