/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ways to write a code object down: MIOpen's bzip2, zstd without a dictionary, kiln's codec.
 *
 * Ownership  what is packed or unpacked is borrowed from the packer until its next call
 * Threading  one thread at a time for each packer
 *
 * Every way keeps its memory from call to call where its library can, so that none is charged for
 * the allocator.
 */
#include "common/bytes.h"
#include "common/err.h"

enum packing { PACKING_BZIP2, PACKING_ZSTD, PACKING_KILN, PACKING_COUNT };

struct packed {
    struct bytes bytes;
    unsigned codec; /* kiln's: which form it chose */
};

struct packer;

KILN_MUST_CHECK enum kiln_code packer_create(struct packer **ret_packer, struct kiln_err *err);
void packer_destroy(struct packer *packer);
KILN_DEFINE_AUTO(packer)

const char *packing_name(enum packing packing); /* "bzip2", "zstd", "kiln" */
KILN_MUST_CHECK enum kiln_code packer_pack(struct packer *packer, enum packing packing,
                                           struct bytes raw, struct packed *ret_packed,
                                           struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code packer_unpack(struct packer *packer, enum packing packing,
                                             const struct packed *packed, size_t raw_size,
                                             struct bytes *ret_raw, struct kiln_err *err);
