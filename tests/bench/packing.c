/* SPDX-License-Identifier: MIT */
#include "tests/bench/packing.h"

#include "engine/codec/codec_zstd.h"

#include <bzlib.h>
#include <zstd.h>

#define BZIP2_BLOCK 9 /* block size in units of 100 kB, as in MIOpen */
/* engine/codec/codec_zstd.c uses this level for objects of this size */
#define ZSTD_LEVEL 15

struct packer {
    struct codec *codec;
    ZSTD_CCtx *compressor;
    ZSTD_DCtx *decompressor;
    char *buffer;
    size_t capacity;
};

enum kiln_code packer_create(struct packer **ret_packer, struct kiln_err *err)
{
    KILN_AUTO(packer) struct packer *p = calloc(1, sizeof(*p));
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make a packer");
    p->compressor = ZSTD_createCCtx();
    p->decompressor = ZSTD_createDCtx();
    if (!p->compressor || !p->decompressor)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make a packer");
    enum kiln_code rc = codec_create(&p->codec, err);
    if (!rc)
        *ret_packer = KILN_TAKE(p);
    return rc;
}

void packer_destroy(struct packer *p)
{
    if (!p)
        return;
    codec_destroy(p->codec);
    ZSTD_freeCCtx(p->compressor);
    ZSTD_freeDCtx(p->decompressor);
    free(p->buffer);
    free(p);
}

const char *packing_name(enum packing packing)
{
    static const char *const names[] = { "bzip2", "zstd", "kiln" };
    return names[packing];
}

static enum kiln_code reserve_buffer(struct packer *p, size_t size, struct kiln_err *err)
{
    if (size <= p->capacity)
        return KILN_OK;
    free(p->buffer);
    p->capacity = 0;
    p->buffer = malloc(size);
    if (!p->buffer)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot pack an object of %zu bytes", size);
    p->capacity = size;
    return KILN_OK;
}

static enum kiln_code pack_bzip2(struct packer *p, struct bytes raw, struct packed *ret_packed,
                                 struct kiln_err *err)
{
    /* bzip2's documentation guarantees that this is enough */
    unsigned size = (unsigned)(raw.size + raw.size / 100 + 600);
    enum kiln_code rc = reserve_buffer(p, size, err);
    if (rc)
        return rc;
    if (BZ2_bzBuffToBuffCompress(p->buffer, &size, (char *)raw.data, (unsigned)raw.size,
                                 BZIP2_BLOCK, 0, 30) != BZ_OK)
        return kiln_fail(err, KILN_IO, "bzip2 refused an object of %zu bytes", raw.size);
    *ret_packed = (struct packed){ .bytes = bytes_of(p->buffer, size) };
    return KILN_OK;
}

static enum kiln_code pack_zstd(struct packer *p, struct bytes raw, struct packed *ret_packed,
                                struct kiln_err *err)
{
    enum kiln_code rc = reserve_buffer(p, ZSTD_compressBound(raw.size), err);
    if (rc)
        return rc;
    size_t size =
        ZSTD_compressCCtx(p->compressor, p->buffer, p->capacity, raw.data, raw.size, ZSTD_LEVEL);
    if (ZSTD_isError(size))
        return kiln_fail(err, KILN_IO, "zstd refused an object of %zu bytes", raw.size);
    *ret_packed = (struct packed){ .bytes = bytes_of(p->buffer, size) };
    return KILN_OK;
}

static enum kiln_code pack_kiln(struct packer *p, struct bytes raw, struct packed *ret_packed,
                                struct kiln_err *err)
{
    enum codec_id id;
    struct bytes stored;
    enum kiln_code rc = codec_pack(p->codec, raw, &stored, &id, err);
    if (!rc)
        *ret_packed = (struct packed){ .bytes = stored, .codec = id };
    return rc;
}

enum kiln_code packer_pack(struct packer *p, enum packing packing, struct bytes raw,
                           struct packed *ret_packed, struct kiln_err *err)
{
    enum kiln_code rc = packing == PACKING_BZIP2  ? pack_bzip2(p, raw, ret_packed, err)
                        : packing == PACKING_ZSTD ? pack_zstd(p, raw, ret_packed, err)
                                                  : pack_kiln(p, raw, ret_packed, err);
    if (!rc) {
        ret_packed->packing = packing;
        ret_packed->raw_size = raw.size;
    }
    return rc;
}

static enum kiln_code unpack_bzip2(struct packer *p, const struct packed *packed,
                                   struct bytes *ret_raw, struct kiln_err *err)
{
    unsigned size = (unsigned)packed->raw_size;
    enum kiln_code rc = reserve_buffer(p, packed->raw_size, err);
    if (rc)
        return rc;
    if (BZ2_bzBuffToBuffDecompress(p->buffer, &size, (char *)packed->bytes.data,
                                   (unsigned)packed->bytes.size, 0, 0) != BZ_OK)
        return kiln_fail(err, KILN_CORRUPT, "bzip2 cannot unpack");
    *ret_raw = bytes_of(p->buffer, size);
    return KILN_OK;
}

static enum kiln_code unpack_zstd(struct packer *p, const struct packed *packed,
                                  struct bytes *ret_raw, struct kiln_err *err)
{
    enum kiln_code rc = reserve_buffer(p, packed->raw_size, err);
    if (rc)
        return rc;
    size_t size = ZSTD_decompressDCtx(p->decompressor, p->buffer, packed->raw_size,
                                      packed->bytes.data, packed->bytes.size);
    if (ZSTD_isError(size))
        return kiln_fail(err, KILN_CORRUPT, "zstd cannot unpack");
    *ret_raw = bytes_of(p->buffer, size);
    return KILN_OK;
}

enum kiln_code packer_unpack(struct packer *p, const struct packed *packed, struct bytes *ret_raw,
                             struct kiln_err *err)
{
    const struct packed_object object = { .codec = packed->codec,
                                          .raw_size = packed->raw_size,
                                          .stored = packed->bytes };
    switch (packed->packing) {
    case PACKING_BZIP2: return unpack_bzip2(p, packed, ret_raw, err);
    case PACKING_ZSTD: return unpack_zstd(p, packed, ret_raw, err);
    default: return codec_unpack(p->codec, &object, ret_raw, err);
    }
}
