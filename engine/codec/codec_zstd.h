/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The stored form of an object's bytes. An object is compressed with zstd if that makes it smaller,
 * and with the dictionary of its GPU family if that makes it even smaller. Otherwise it is stored
 * raw.
 *
 * Role       the only user of libzstd
 * Ownership  a codec owns its contexts and the memory that holds results
 * Threading  one thread at a time for each codec
 * On disk    enum codec_id is written into kernels.db and packages: append new numbers, never
 *            change one. A replaced dictionary keeps its number, because stored objects need it
 *
 * All codecs of one build with one libzstd compress the same bytes to the same result.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

enum codec_id {
    CODEC_RAW = 0,
    CODEC_ZSTD = 1,
    CODEC_ZSTD_AMDGPU = 2,
    CODEC_ZSTD_NVIDIA = 3,
};

struct codec;

KILN_MUST_CHECK enum kiln_code codec_create(struct codec **ret_codec, struct kiln_err *err);
void codec_destroy(struct codec *codec);
KILN_DEFINE_AUTO(codec)

/* Returns false if a newer kiln wrote |id|, or |id| is damaged. */
bool codec_knows(uint64_t id);
/* Compresses |raw| if that makes it smaller. |ret_stored| is |raw| itself, or memory of the codec
 * that is valid until the codec's next call. */
KILN_MUST_CHECK enum kiln_code codec_pack(struct codec *codec, struct bytes raw,
                                          struct bytes *ret_stored, enum codec_id *ret_id,
                                          struct kiln_err *err);

struct packed_object { /* as read from disk; not yet checked */
    uint64_t codec;    /* enum codec_id, or a number that only a newer kiln knows */
    uint64_t raw_size;
    struct bytes stored;
};
/* Returns KILN_CORRUPT if |packed| is damaged or does not unpack to exactly |raw_size| bytes.
 * Returns KILN_NOT_FOUND if codec_knows is false for its codec: the object then counts as missing,
 * not as damaged.  |ret_raw| is part of |packed|, or memory of the codec that is valid until the
 * codec's next call. */
KILN_MUST_CHECK enum kiln_code codec_unpack(struct codec *codec, const struct packed_object *packed,
                                            struct bytes *ret_raw, struct kiln_err *err);
