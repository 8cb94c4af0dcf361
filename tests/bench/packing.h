/* SPDX-License-Identifier: MIT */
#pragma once

/* Compresses code objects in three ways: with bzip2 as MIOpen does, with zstd without a dictionary,
 * and with kiln's codec.
 *
 * Where the library allows it, a packer keeps its memory between calls, so that its allocations are
 * not measured.
 *
 * Ownership  the packer owns its results, which are valid until its next call
 * Threading  one thread at a time for each packer */
#include "common/base/bytes.h"
#include "common/base/err.h"

enum packing { PACKING_BZIP2, PACKING_ZSTD, PACKING_KILN, PACKING_COUNT };

struct packed {
    enum packing packing;
    unsigned codec;
    size_t raw_size;
    struct bytes bytes;
};

struct packer;

KILN_MUST_CHECK enum kiln_code packer_create(struct packer **ret_packer, struct kiln_err *err);
void packer_destroy(struct packer *packer);
KILN_DEFINE_AUTO(packer)

const char *packing_name(enum packing packing);
KILN_MUST_CHECK enum kiln_code packer_pack(struct packer *packer, enum packing packing,
                                           struct bytes raw, struct packed *ret_packed,
                                           struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code packer_unpack(struct packer *packer, const struct packed *packed,
                                             struct bytes *ret_raw, struct kiln_err *err);
