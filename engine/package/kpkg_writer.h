/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes a .kpkg file (docs/formats/kpkg.md); package_writer.h defines what may be added.
 *
 * Ownership  see package_writer.h
 * Threading  one thread at a time for each writer
 */
#include "engine/package/package_writer.h"

struct kpkg_writer;

KILN_MUST_CHECK enum kiln_code kpkg_writer_create(const char *path, struct kpkg_writer **ret_writer,
                                                  struct kiln_err *err);
void kpkg_writer_destroy(struct kpkg_writer *writer);
KILN_DEFINE_AUTO(kpkg_writer)
KILN_MUST_CHECK enum kiln_code kpkg_writer_add(struct kpkg_writer *writer,
                                               const struct package_entry *entry,
                                               struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kpkg_writer_finish(struct kpkg_writer *writer, struct kiln_err *err);
