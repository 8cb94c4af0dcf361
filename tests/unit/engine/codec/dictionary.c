/* SPDX-License-Identifier: MIT */
#include "engine/codec/dictionary.h"

#include "engine/digest/sha256.h"
#include "tests/support/test.h"

#include <elf.h>
#include <string.h>
#include <zstd.h>

TEST(plain, a_dictionary_never_changes)
{
    /* Objects in stores were packed with exactly these bytes. A changed dictionary needs a new
     * codec. */
    static const char *const sha256[DICTIONARY_COUNT] = {
        "6a9eef755e56c4b7abf74e274fc30eaf6d4a49113c588321efd9e0512a6a36bb",
        "944133690164bc99d4d70e762bbd102e01d7ec471eb16340bdef906dfcad63de",
    };
    for (size_t i = 0; i < DICTIONARY_COUNT; i++) {
        struct digest sum = sha256_of(dictionary_content(i));
        char hex[DIGEST_HEX_SIZE];
        digest_to_hex(&sum, hex);
        assert_string_equal(hex, sha256[i]);
    }
}

TEST(plain, frames_name_the_dictionary_that_libzstd_needs)
{
    for (size_t i = 0; i < DICTIONARY_COUNT; i++) {
        struct bytes content = dictionary_content(i);
        ZSTD_DDict *digested = ZSTD_createDDict(content.data, content.size);
        assert_non_null(digested);
        assert_int_equal(ZSTD_getDictID_fromDDict(digested), 32768 + dictionary_codec(i));
        ZSTD_freeDDict(digested);
    }
}

TEST(plain, a_dictionary_is_found_by_its_codec)
{
    for (size_t i = 0; i < DICTIONARY_COUNT; i++)
        assert_int_equal(dictionary_of(dictionary_codec(i)), i);
    assert_int_equal(dictionary_of(CODEC_RAW), DICTIONARY_COUNT);
    assert_int_equal(dictionary_of(CODEC_ZSTD), DICTIONARY_COUNT);
    assert_int_equal(dictionary_of(UINT64_MAX), DICTIONARY_COUNT);
}

static size_t found_for(uint16_t machine, size_t size)
{
    Elf64_Ehdr header = { .e_ident = ELFMAG, .e_machine = machine };
    uint8_t raw[sizeof(header)];
    memcpy(raw, &header, sizeof(header));
    return dictionary_for(bytes_of(raw, size));
}

TEST(plain, a_dictionary_suits_elf_files_of_its_gpu_family)
{
    assert_int_equal(found_for(EM_AMDGPU, sizeof(Elf64_Ehdr)), dictionary_of(CODEC_ZSTD_AMDGPU));
    assert_int_equal(found_for(EM_CUDA, sizeof(Elf64_Ehdr)), dictionary_of(CODEC_ZSTD_NVIDIA));
    assert_int_equal(found_for(EM_X86_64, sizeof(Elf64_Ehdr)), DICTIONARY_COUNT);
}

TEST(plain, no_dictionary_suits_other_content)
{
    static const char text[] = "__kernel void not_an_elf_file_but_a_source_of_more_than_64_bytes()";
    assert_int_equal(found_for(EM_AMDGPU, sizeof(Elf64_Ehdr) - 1), DICTIONARY_COUNT);
    assert_int_equal(dictionary_for(bytes_of(text, sizeof(text))), DICTIONARY_COUNT);
    assert_int_equal(dictionary_for(bytes_of(NULL, 0)), DICTIONARY_COUNT);
}
