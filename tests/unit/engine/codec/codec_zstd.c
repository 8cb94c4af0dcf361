/* SPDX-License-Identifier: MIT */
#include "engine/codec/codec_zstd.h"

#include "common/protocol/limits.h"
#include "engine/codec/dictionary.h"
#include "store_fixture.h"

#include <elf.h>
#include <string.h>

struct packed {
    struct codec *codec;
    uint8_t *raw;
    size_t size;
    uint8_t *stored; /* a copy, with a spare byte */
    size_t stored_size;
    enum codec_id id;
};

static struct packed pack_bytes(uint8_t *raw, size_t size)
{
    struct packed p = { .size = size, .raw = raw };
    struct kiln_err err = KILN_ERR_INIT;
    struct bytes stored;
    assert_int_equal(codec_create(&p.codec, &err), KILN_OK);
    assert_int_equal(codec_pack(p.codec, bytes_of(p.raw, size), &stored, &p.id, &err), KILN_OK);
    p.stored = malloc(stored.size + 1);
    memcpy(p.stored, stored.data, stored.size);
    p.stored[stored.size] = 0;
    p.stored_size = stored.size;
    return p;
}

static struct packed pack(size_t size, bool compressible)
{
    uint8_t *raw = malloc(size);
    fill(raw, size, 3, compressible);
    return pack_bytes(raw, size);
}

static void write_elf_header(uint8_t *raw, uint16_t machine)
{
    Elf64_Ehdr header = { .e_ident = ELFMAG, .e_machine = machine };
    memcpy(raw, &header, sizeof(header));
}

/* Packs an ELF file for |machine| that contains pieces of |like|'s dictionary, in another order. */
static struct packed pack_elf(size_t size, uint16_t machine, enum codec_id like)
{
    struct bytes common = dictionary_content(dictionary_of(like));
    uint8_t *raw = malloc(size);
    fill(raw, size, 3, false);
    for (size_t at = 0, piece = 0; at + 300 <= size; at += 300, piece += 5)
        memcpy(raw + at, common.data + common.size / 2 + piece % 40 * 256, 256);
    write_elf_header(raw, machine);
    return pack_bytes(raw, size);
}

static struct packed pack_amdgpu(size_t size)
{
    return pack_elf(size, EM_AMDGPU, CODEC_ZSTD_AMDGPU);
}

static void done(struct packed *p)
{
    codec_destroy(p->codec);
    free(p->raw);
    free(p->stored);
}

static enum kiln_code unpack_as(struct packed *p, uint64_t id, size_t stored_size,
                                uint64_t raw_size)
{
    struct bytes raw;
    struct kiln_err err = KILN_ERR_INIT;
    const struct packed_object packed = { .codec = id,
                                          .raw_size = raw_size,
                                          .stored = bytes_of(p->stored, stored_size) };
    enum kiln_code rc = codec_unpack(p->codec, &packed, &raw, &err);
    if (!rc)
        assert_true(bytes_equal(raw, bytes_of(p->raw, p->size)));
    return rc;
}

static enum kiln_code unpack(struct packed *p, size_t stored_size, uint64_t raw_size)
{
    return unpack_as(p, p->id, stored_size, raw_size);
}

static enum kiln_code unpack_afresh(struct packed *p)
{
    struct kiln_err err = KILN_ERR_INIT;
    codec_destroy(p->codec);
    assert_int_equal(codec_create(&p->codec, &err), KILN_OK);
    return unpack(p, p->stored_size, p->size);
}

TEST(plain, compressible_objects_are_compressed_and_restored)
{
    size_t sizes[] = { 200, 20000, 3 << 20 };
    for (size_t i = 0; i < 3; i++) {
        struct packed p = pack(sizes[i], true);
        assert_int_equal(p.id, CODEC_ZSTD);
        assert_true(p.stored_size < sizes[i]);
        assert_int_equal(unpack_afresh(&p), KILN_OK);
        done(&p);
    }
}

TEST(plain, an_incompressible_object_is_stored_uncompressed)
{
    struct packed p = pack(20000, false);

    assert_int_equal(p.id, CODEC_RAW);
    assert_int_equal(p.stored_size, 20000);
    assert_int_equal(unpack_afresh(&p), KILN_OK);
    done(&p);
}

TEST(plain, the_dictionary_of_its_gpu_family_shrinks_a_code_object_further)
{
    const struct {
        uint16_t machine;
        enum codec_id codec;
    } families[] = { { EM_AMDGPU, CODEC_ZSTD_AMDGPU }, { EM_CUDA, CODEC_ZSTD_NVIDIA } };
    for (size_t i = 0; i < 2; i++) {
        struct packed p = pack_elf(6000, families[i].machine, families[i].codec);
        struct packed plain = pack_elf(6000, EM_X86_64, families[i].codec);

        assert_int_equal(p.id, families[i].codec);
        assert_int_equal(plain.id, CODEC_ZSTD);
        assert_true(p.stored_size < plain.stored_size / 2);
        assert_int_equal(unpack_afresh(&p), KILN_OK);
        done(&p);
        done(&plain);
    }
}

TEST(plain, an_object_that_is_smaller_without_a_dictionary_is_stored_without_one)
{
    uint8_t *raw = calloc(1, 20000);
    fill(raw, 100, 3, false);
    write_elf_header(raw, EM_AMDGPU);
    struct packed p = pack_bytes(raw, 20000);

    assert_int_equal(p.id, CODEC_ZSTD);
    assert_int_equal(unpack_afresh(&p), KILN_OK);
    done(&p);
}

TEST(plain, large_objects_are_compressed_without_a_dictionary)
{
    struct packed largest = pack_amdgpu(128 << 10), larger = pack_amdgpu((128 << 10) + 1);

    assert_int_equal(largest.id, CODEC_ZSTD_AMDGPU);
    assert_int_equal(larger.id, CODEC_ZSTD);
    assert_int_equal(unpack_afresh(&largest), KILN_OK);
    assert_int_equal(unpack_afresh(&larger), KILN_OK);
    done(&largest);
    done(&larger);
}

TEST(plain, the_compressed_form_does_not_depend_on_earlier_objects)
{
    struct packed first = pack_amdgpu(6000), other = pack(300000, true);
    struct kiln_err err = KILN_ERR_INIT;
    struct bytes stored;
    enum codec_id id;

    assert_int_equal(codec_pack(other.codec, bytes_of(first.raw, first.size), &stored, &id, &err),
                     KILN_OK);

    assert_int_equal(id, first.id);
    assert_true(bytes_equal(stored, bytes_of(first.stored, first.stored_size)));
    done(&first);
    done(&other);
}

TEST(plain, an_object_with_a_wrong_size_is_refused)
{
    uint64_t wrong[] = {
        0, 1, 19999, 20001, LIMIT_CODE_OBJECT, LIMIT_CODE_OBJECT + 1ull, UINT64_MAX
    };
    struct packed all[] = { pack(20000, false), pack(20000, true), pack_amdgpu(20000) };
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
            assert_int_equal(unpack(&all[k], all[k].stored_size, wrong[i]), KILN_CORRUPT);
        done(&all[k]);
    }
}

TEST(plain, truncated_and_extended_forms_are_refused)
{
    struct packed all[] = { pack(2000, true), pack_amdgpu(2000) };
    for (size_t k = 0; k < 2; k++) {
        struct packed *p = &all[k];
        for (size_t size = 0; size < p->stored_size; size++)
            assert_int_equal(unpack(p, size, 2000), KILN_CORRUPT);
        assert_int_equal(unpack(p, p->stored_size + 1, 2000), KILN_CORRUPT);
        done(p);
    }
}

TEST(plain, a_form_that_needs_another_dictionary_is_refused)
{
    enum codec_id wrong[] = { CODEC_RAW, CODEC_ZSTD, CODEC_ZSTD_NVIDIA };
    struct packed p = pack_amdgpu(6000);

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(unpack_as(&p, wrong[i], p.stored_size, p.size), KILN_CORRUPT);

    assert_int_equal(unpack(&p, p.stored_size, p.size), KILN_OK);
    done(&p);
}

TEST(plain, a_form_without_dictionary_unpacks_under_the_number_of_a_dictionary)
{
    struct packed p = pack(6000, true);

    assert_int_equal(unpack_as(&p, CODEC_ZSTD_AMDGPU, p.stored_size, p.size), KILN_OK);
    assert_int_equal(unpack_as(&p, CODEC_ZSTD_NVIDIA, p.stored_size, p.size), KILN_OK);
    done(&p);
}

/* The caller detects wrong content by its SHA-256. The codec only has to return bytes of the right
 * size. */
TEST(plain, a_flipped_bit_gives_an_error_or_bytes_of_the_same_size)
{
    struct packed p = pack_amdgpu(4000);
    unsigned refused = 0;
    for (size_t bit = 0; bit < p.stored_size * 8; bit++) {
        struct bytes raw = { 0 };
        struct kiln_err err = KILN_ERR_INIT;
        p.stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const struct packed_object packed = { .codec = p.id,
                                              .raw_size = p.size,
                                              .stored = bytes_of(p.stored, p.stored_size) };
        enum kiln_code rc = codec_unpack(p.codec, &packed, &raw, &err);
        p.stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refused += rc == KILN_CORRUPT;
        assert_true(rc == KILN_CORRUPT || (rc == KILN_OK && raw.size == p.size));
    }
    assert_true(refused > 0);
    assert_int_equal(unpack(&p, p.stored_size, p.size), KILN_OK);
    done(&p);
}

TEST(plain, a_form_of_a_newer_kiln_is_a_miss_without_a_message)
{
    uint64_t newer[] = { CODEC_ZSTD_NVIDIA + 1, 77, UINT64_MAX };
    struct packed p = pack(2000, true);
    for (size_t i = 0; i < 3; i++) {
        struct bytes raw;
        struct kiln_err err = KILN_ERR_INIT;
        const struct packed_object packed = { .codec = newer[i],
                                              .raw_size = 2000,
                                              .stored = bytes_of(p.stored, p.stored_size) };

        assert_false(codec_knows(newer[i]));
        assert_int_equal(codec_unpack(p.codec, &packed, &raw, &err), KILN_NOT_FOUND);
        assert_int_equal(err.code, KILN_OK);
        assert_string_equal(err.text, "");
    }
    done(&p);
}

TEST(plain, every_stored_form_is_known)
{
    for (uint64_t id = CODEC_RAW; id <= CODEC_ZSTD_NVIDIA; id++)
        assert_true(codec_knows(id));
}
