/* SPDX-License-Identifier: MIT */
#include "engine/store/codec_zstd.h"

#include "common/limits.h"
#include "engine/store/dictionary.h"

#include <zstd.h>

/*
 * Measured on 72 code objects of clang 19 for six AMD targets, mean 40 KB (zstd 1.5.4, one core):
 *
 *   level   stored   compress   decompress        (bzip2 -9: 8026 bytes)
 *       3     7404     0.09 ms        17 us
 *       6     7152     0.23 ms        16 us
 *       9     7140     0.32 ms        17 us
 *      15     6506     2.8  ms        21 us
 *      19     6435     7.9  ms        22 us
 *
 * 15 has nearly all there is to gain and costs a hundredth of the compile it follows.  Larger
 * objects would hold up the one writer at its 15 MB/s: they get level 6, 170 MB/s, and no
 * dictionary, which is little beside them.
 *
 * A dictionary (docs/benchmarks.md) leaves 37 to 51 % of what ResNet-50's kernels take without and
 * 90 % of MIOpen's, and unpacking is no slower.  None of 3396 objects was smaller without; still
 * both are tried, so that nothing that somebody brings gets larger by it.
 *
 * Memory: a reader has 94 KiB, and 59 KiB for each dictionary it met; the writer 0.6 to 2.8 MiB by
 * the size of the objects, and 1.1 MiB for each dictionary it met.
 */
#define LEVEL_SMALL 15
#define LEVEL_LARGE 6
#define SMALL_MAX (128u << 10)
/* Memory kept between calls; what a larger object took is given back by the next call. */
#define SCRATCH_KEPT (1u << 20)

struct codec {
    ZSTD_CCtx *packer;   /* owned; made when first needed: readers never pack */
    ZSTD_DCtx *unpacker; /* owned; likewise */
    struct digested {
        ZSTD_CDict *pack;   /* owned; likewise */
        ZSTD_DDict *unpack; /* owned; likewise */
    } digested[DICTIONARY_COUNT];
    uint8_t *scratch; /* owned */
    size_t capacity;
};

enum kiln_code codec_create(struct codec **ret_codec, struct kiln_err *err)
{
    struct codec *codec = calloc(1, sizeof(*codec));
    if (!codec)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make a codec: out of memory");
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

static enum kiln_code reserve(struct codec *codec, size_t size, struct kiln_err *err)
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

/* ---- packing ---- */

struct packed {
    enum codec_id id;
    struct bytes stored;
};

static void keep_smaller(struct packed *best, enum codec_id id, const uint8_t *data, size_t size)
{
    if (!ZSTD_isError(size) && size < best->stored.size)
        *best = (struct packed){ id, bytes_of(data, size) };
}

static enum kiln_code pack_with(struct codec *codec, size_t dictionary, struct bytes raw,
                                uint8_t *room, struct packed *best, struct kiln_err *err)
{
    ZSTD_CDict **digested = &codec->digested[dictionary].pack;
    struct bytes content = dictionary_content(dictionary);
    if (!*digested)
        *digested = ZSTD_createCDict(content.data, content.size, LEVEL_SMALL);
    if (!*digested)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot compress a code object: out of memory");
    size_t size = ZSTD_compress_usingCDict(codec->packer, room, ZSTD_compressBound(raw.size),
                                           raw.data, raw.size, *digested);
    keep_smaller(best, dictionary_codec(dictionary), room, size);
    return KILN_OK;
}

enum kiln_code codec_pack(struct codec *codec, struct bytes raw, struct bytes *ret_stored,
                          enum codec_id *ret_id, struct kiln_err *err)
{
    bool small = raw.size <= SMALL_MAX;
    size_t bound = ZSTD_compressBound(raw.size);
    size_t dictionary = small ? dictionary_for(raw) : DICTIONARY_COUNT;
    enum kiln_code rc = reserve(codec, dictionary < DICTIONARY_COUNT ? 2 * bound : bound, err);
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
        rc = pack_with(codec, dictionary, raw, codec->scratch + bound, &best, err);
    if (rc)
        return rc;
    *ret_stored = best.stored;
    *ret_id = best.id;
    return KILN_OK;
}

/* ---- unpacking ---- */

/* NULL in |ret_digested| for a form without dictionary. */
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

static enum kiln_code prepare(struct codec *codec, uint64_t id, uint64_t raw_size,
                              const ZSTD_DDict **ret_digested, struct kiln_err *err)
{
    enum kiln_code rc = reserve(codec, raw_size, err);
    if (rc)
        return rc;
    if (!codec->unpacker)
        codec->unpacker = ZSTD_createDCtx();
    if (!codec->unpacker)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot unpack a code object: out of memory");
    return find_digested(codec, id, ret_digested, err);
}

static enum kiln_code unpack_zstd(struct codec *codec, uint64_t id, struct bytes stored,
                                  uint64_t raw_size, struct bytes *ret_raw, struct kiln_err *err)
{
    /* Before memory is taken: a damaged size must not ask for a quarter of a gigabyte. */
    if (ZSTD_getFrameContentSize(stored.data, stored.size) != raw_size)
        return kiln_fail(err, KILN_CORRUPT, "a stored code object is not one of %llu bytes",
                         (unsigned long long)raw_size);
    const ZSTD_DDict *digested = NULL;
    enum kiln_code rc = prepare(codec, id, raw_size, &digested, err);
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

enum kiln_code codec_unpack(struct codec *codec, uint64_t id, struct bytes stored,
                            uint64_t raw_size, struct bytes *ret_raw, struct kiln_err *err)
{
    if (!codec_knows(id))
        return KILN_NOT_FOUND;
    if (raw_size == 0 || raw_size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_CORRUPT, "a stored code object claims %llu bytes",
                         (unsigned long long)raw_size);
    if (id != CODEC_RAW)
        return unpack_zstd(codec, id, stored, raw_size, ret_raw, err);
    if (stored.size != raw_size)
        return kiln_fail(err, KILN_CORRUPT, "a stored code object has %zu bytes, not %llu",
                         stored.size, (unsigned long long)raw_size);
    *ret_raw = stored;
    return KILN_OK;
}
