/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compression of code objects: MIOpen's bzip2, zstd without a dictionary, kiln's codec.
 *
 * Ownership  results are borrowed from the packer until its next call
 * Threading  one thread at a time for each packer
 *
 * The packer keeps its memory between calls where the library can, so that allocations are not
 * measured.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

enum packing { PACKING_BZIP2, PACKING_ZSTD, PACKING_KILN, PACKING_COUNT };

struct packed {
    enum packing packing;
    unsigned codec; /* PACKING_KILN: the codec that kiln chose */
    size_t raw_size;
    struct bytes bytes;
};

struct packer;

KILN_MUST_CHECK enum kiln_code packer_create(struct packer **ret_packer, struct kiln_err *err);
void packer_destroy(struct packer *packer);
KILN_DEFINE_AUTO(packer)

const char *packing_name(enum packing packing); /* "bzip2", "zstd", "kiln" */
KILN_MUST_CHECK enum kiln_code packer_pack(struct packer *packer, enum packing packing,
                                           struct bytes raw, struct packed *ret_packed,
                                           struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code packer_unpack(struct packer *packer, const struct packed *packed,
                                             struct bytes *ret_raw, struct kiln_err *err);
