/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/digest/checksum.h"

#include <string.h>

TEST(plain, hashes_as_siphash_2_4_is_defined_to)
{
    /* The test vector of the SipHash paper: the bytes of the key and of the text count from 0. */
    struct hash_key key = { { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL } };
    uint8_t text[15];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)i;
    assert_true(keyed_hash(bytes_of(text, sizeof(text)), &key) == 0xa129ca6149be45e5ULL);
    assert_true(keyed_hash(bytes_of(NULL, 0), &key) == 0x726fdb47dd0e0e31ULL);
}

TEST(plain, another_key_gives_another_hash)
{
    struct hash_key a = { { 1, 2 } }, b = { { 1, 3 } };
    assert_true(keyed_hash(bytes_of_text("64-56-56"), &a) !=
                keyed_hash(bytes_of_text("64-56-56"), &b));
}

TEST(plain, each_drawn_hash_key_is_another_one)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct hash_key a = { { 0 } }, b = { { 0 } };
    must(hash_key_draw(&a, &err), err);
    must(hash_key_draw(&b, &err), err);
    assert_memory_not_equal(&a, &b, sizeof(a));
}

TEST(plain, every_flipped_bit_changes_the_checksum)
{
    uint8_t text[61];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)(i * 37);
    uint64_t before = checksum_put(0, bytes_of(text, sizeof(text)));
    for (size_t bit = 0; bit < sizeof(text) * 8; bit++) {
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(checksum_put(0, bytes_of(text, sizeof(text))) != before);
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

TEST(plain, parts_do_not_flow_into_one_another)
{
    uint64_t a = checksum_put(checksum_put(0, bytes_of_text("ab")), bytes_of_text("c"));
    uint64_t b = checksum_put(checksum_put(0, bytes_of_text("a")), bytes_of_text("bc"));
    assert_true(a != b);
    assert_true(checksum_put(0, bytes_of("a\0", 2)) != checksum_put(0, bytes_of("a", 1)));
}
