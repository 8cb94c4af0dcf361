/* SPDX-License-Identifier: MIT */
#include "engine/codec/codec_zstd.h"

#include "common/protocol/limits.h"
#include "engine/codec/dictionary.h"

#include <zstd.h>

/*
 * Measured on 72 code objects of clang 19 for six AMD targets, mean 40 KB (zstd 1.5.4, one core):
 *
 *   level   stored   compress   decompress        (bzip2 -9: 8026 bytes)
 *       3     7404     0.09 ms        17 us
 *       6     7152     0.23 ms        16 us
 *      15     6506     2.8  ms        21 us
 *      19     6435     7.9  ms        22 us
 *
 * Level 15 takes a hundredth of the time of a compile, but packs only 15 MB/s. Large objects would
 * thus occupy the write queue for too long. They get level 6 (170 MB/s) and no dictionary.
 *
 * With a dictionary (docs/benchmarks.md), ResNet-50's kernels take 37 to 51 % of the bytes that
 * they take without one.  An object is packed with and without the dictionary, so that the
 * dictionary never makes it larger.
 *
 * A codec that only unpacks takes 94 KiB of memory, plus 59 KiB for each dictionary that it has
 * used. A codec that packs takes 0.6 to 2.8 MiB, depending on the size of the objects, plus 1.1 MiB
 * for each dictionary that it has used.
 */
#define LEVEL_SMALL 15
#define LEVEL_LARGE 6
#define SMALL_MAX (128u << 10)
#define SCRATCH_KEPT (1u << 20)

struct codec {
    ZSTD_CCtx *packer;
    ZSTD_DCtx *unpacker;
    struct digested {
        ZSTD_CDict *pack;
        ZSTD_DDict *unpack;
    } digested[DICTIONARY_COUNT];
    uint8_t *scratch;
    size_t capacity;
};

enum kiln_code codec_create(struct codec **ret_codec, struct kiln_err *err)
{
    struct codec *codec = calloc(1, sizeof(*codec));
    if (!codec)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot create a codec: out of memory");
    *ret_codec = codec;
    return KILN_OK;
}

void codec_destroy(struct codec *codec)
{
    if (!codec)
        return;
    ZSTD_freeCCtx(codec->packer);
    ZSTD_freeDCtx(codec->unpacker);
    for (size_t i = 0; i < DICTIONARY_COUNT; i++) {
        ZSTD_freeCDict(codec->digested[i].pack);
        ZSTD_freeDDict(codec->digested[i].unpack);
    }
    free(codec->scratch);
    free(codec);
}

static enum kiln_code reserve_scratch(struct codec *codec, size_t size, struct kiln_err *err)
{
    if (size <= codec->capacity && (codec->capacity <= SCRATCH_KEPT || size > SCRATCH_KEPT))
        return KILN_OK;
    free(codec->scratch);
    codec->capacity = 0;
    codec->scratch = malloc(size);
    if (!codec->scratch)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a code object of %zu bytes", size);
    codec->capacity = size;
    return KILN_OK;
}

struct packed {
    enum codec_id id;
    struct bytes stored;
};

static void keep_smaller(struct packed *best, enum codec_id id, const uint8_t *data, size_t size)
{
    if (!ZSTD_isError(size) && size < best->stored.size)
        *best = (struct packed){ id, bytes_of(data, size) };
}

/* Writes to the second half of the scratch memory, because |best| may point into the first half. */
static enum kiln_code pack_with_dictionary(struct codec *codec, size_t dictionary, struct bytes raw,
                                           struct packed *best, struct kiln_err *err)
{
    size_t bound = ZSTD_compressBound(raw.size);
    uint8_t *target = codec->scratch + bound;
    ZSTD_CDict **digested = &codec->digested[dictionary].pack;
    struct bytes content = dictionary_content(dictionary);
    if (!*digested)
        *digested = ZSTD_createCDict(content.data, content.size, LEVEL_SMALL);
    if (!*digested)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot compress a code object: out of memory");
    size_t size =
        ZSTD_compress_usingCDict(codec->packer, target, bound, raw.data, raw.size, *digested);
    keep_smaller(best, dictionary_codec(dictionary), target, size);
    return KILN_OK;
}

enum kiln_code codec_pack(struct codec *codec, struct bytes raw, struct bytes *ret_stored,
                          enum codec_id *ret_id, struct kiln_err *err)
{
    bool small = raw.size <= SMALL_MAX;
    size_t bound = ZSTD_compressBound(raw.size);
    size_t dictionary = small ? dictionary_for(raw) : DICTIONARY_COUNT;
    enum kiln_code rc =
        reserve_scratch(codec, dictionary < DICTIONARY_COUNT ? 2 * bound : bound, err);
    if (rc)
        return rc;
    if (!codec->packer)
        codec->packer = ZSTD_createCCtx();
    if (!codec->packer)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot compress a code object: out of memory");
    struct packed best = { CODEC_RAW, raw };
    size_t size = ZSTD_compressCCtx(codec->packer, codec->scratch, bound, raw.data, raw.size,
                                    small ? LEVEL_SMALL : LEVEL_LARGE);
    keep_smaller(&best, CODEC_ZSTD, codec->scratch, size);
    if (dictionary < DICTIONARY_COUNT)
        rc = pack_with_dictionary(codec, dictionary, raw, &best, err);
    if (rc)
        return rc;
    *ret_stored = best.stored;
    *ret_id = best.id;
    return KILN_OK;
}

static enum kiln_code find_digested(struct codec *codec, uint64_t id,
                                    const ZSTD_DDict **ret_digested, struct kiln_err *err)
{
    size_t dictionary = dictionary_of(id);
    *ret_digested = NULL;
    if (dictionary == DICTIONARY_COUNT)
        return KILN_OK;
    ZSTD_DDict **digested = &codec->digested[dictionary].unpack;
    struct bytes content = dictionary_content(dictionary);
    if (!*digested)
        *digested = ZSTD_createDDict(content.data, content.size);
    if (!*digested)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot unpack a code object: out of memory");
    *ret_digested = *digested;
    return KILN_OK;
}

static enum kiln_code prepare_unpacking(struct codec *codec, const struct packed_object *packed,
                                        const ZSTD_DDict **ret_digested, struct kiln_err *err)
{
    enum kiln_code rc = reserve_scratch(codec, packed->raw_size, err);
    if (rc)
        return rc;
    if (!codec->unpacker)
        codec->unpacker = ZSTD_createDCtx();
    if (!codec->unpacker)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot unpack a code object: out of memory");
    return find_digested(codec, packed->codec, ret_digested, err);
}

static enum kiln_code unpack_zstd(struct codec *codec, const struct packed_object *packed,
                                  struct bytes *ret_raw, struct kiln_err *err)
{
    const struct bytes stored = packed->stored;
    const uint64_t raw_size = packed->raw_size;
    if (ZSTD_getFrameContentSize(stored.data, stored.size) != raw_size)
        return kiln_fail(err, KILN_CORRUPT, "a stored code object does not unpack to %llu bytes",
                         (unsigned long long)raw_size);
    const ZSTD_DDict *digested = NULL;
    enum kiln_code rc = prepare_unpacking(codec, packed, &digested, err);
    if (rc)
        return rc;
    size_t size = ZSTD_decompress_usingDDict(codec->unpacker, codec->scratch, raw_size, stored.data,
                                             stored.size, digested);
    if (ZSTD_isError(size))
        return kiln_fail(err, KILN_CORRUPT, "a stored code object does not unpack: %s",
                         ZSTD_getErrorName(size));
    if (size != raw_size)
        return kiln_fail(err, KILN_CORRUPT, "a stored code object unpacks to %zu bytes, not %llu",
                         size, (unsigned long long)raw_size);
    *ret_raw = bytes_of(codec->scratch, size);
    return KILN_OK;
}

bool codec_knows(uint64_t id)
{
    return id == CODEC_RAW || id == CODEC_ZSTD || dictionary_of(id) < DICTIONARY_COUNT;
}

enum kiln_code codec_unpack(struct codec *codec, const struct packed_object *packed,
                            struct bytes *ret_raw, struct kiln_err *err)
{
    if (!codec_knows(packed->codec))
        return KILN_NOT_FOUND;
    if (packed->raw_size == 0 || packed->raw_size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_CORRUPT, "a stored code object claims %llu bytes",
                         (unsigned long long)packed->raw_size);
    if (packed->codec != CODEC_RAW)
        return unpack_zstd(codec, packed, ret_raw, err);
    if (packed->stored.size != packed->raw_size)
        return kiln_fail(err, KILN_CORRUPT, "a stored code object has %zu bytes, not %llu",
                         packed->stored.size, (unsigned long long)packed->raw_size);
    *ret_raw = packed->stored;
    return KILN_OK;
}
