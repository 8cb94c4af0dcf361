/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How an object's bytes are written down: zstd where that shrinks them, with a dictionary of its
 * GPU family where that shrinks them more, else as they are.
 *
 * Role       the only user of libzstd; one codec keeps its contexts from call to call
 * Ownership  owns the contexts and the memory that results lie in
 * Threading  one thread at a time for each codec
 * On disk    enum codec_id is written into kernels.db and packages: append, never renumber.  A
 *            dictionary that was replaced keeps its number, for objects that need it.
 *
 * The same bytes are packed alike by every codec of one build and one libzstd.
 */
#include "common/bytes.h"
#include "common/err.h"

enum codec_id {
    CODEC_RAW = 0,
    CODEC_ZSTD = 1,
    CODEC_ZSTD_AMDGPU = 2, /* engine/store/dictionaries/2-amdgpu.zdict */
    CODEC_ZSTD_NVIDIA = 3, /* engine/store/dictionaries/3-nvidia.zdict */
};

struct codec;

KILN_MUST_CHECK enum kiln_code codec_create(struct codec **ret_codec, struct kiln_err *err);
void codec_destroy(struct codec *codec);
KILN_DEFINE_AUTO(codec)

/* False for a form that only a newer kiln, or a flipped bit, can have written. */
bool codec_knows(uint64_t id);
/* |ret_stored| is borrowed: from the codec until its next call, or it is |raw| itself. */
KILN_MUST_CHECK enum kiln_code codec_pack(struct codec *codec, struct bytes raw,
                                          struct bytes *ret_stored, enum codec_id *ret_id,
                                          struct kiln_err *err);
/* KILN_CORRUPT unless |stored| is a whole |id| form of exactly |raw_size| bytes.  KILN_NOT_FOUND,
 * an answer, when codec_knows not: a miss for this build, and nothing that is damaged.  |ret_raw|
 * is borrowed as above. */
KILN_MUST_CHECK enum kiln_code codec_unpack(struct codec *codec, uint64_t id, struct bytes stored,
                                            uint64_t raw_size, struct bytes *ret_raw,
                                            struct kiln_err *err);
