/* SPDX-License-Identifier: MIT */
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "tests/support/test.h"

#include <string.h>

TEST(plain, values_in_a_buffer_are_read_back)
{
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1000);
    buffer_put_u8(&b, 0xfe);
    buffer_put_u16(&b, 0xfedc);
    buffer_put_u32(&b, 0xfedcba98);
    buffer_put_u64(&b, 0xfedcba9876543210u);
    buffer_put_sized(&b, bytes_of_text("kiln"));
    assert_false(b.failed);

    struct reader r = reader_of(buffer_view(&b));
    assert_int_equal(reader_u8(&r), 0xfe);
    assert_int_equal(reader_u16(&r), 0xfedc);
    assert_int_equal(reader_u32(&r), 0xfedcba98);
    assert_int_equal(reader_u64(&r), 0xfedcba9876543210u);
    assert_true(bytes_equal_text(reader_sized(&r), "kiln"));
    assert_false(r.failed);
    assert_int_equal(reader_left(&r), 0);
}

TEST(plain, a_buffer_stores_numbers_in_little_endian_order)
{
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1000);
    buffer_put_u32(&b, 0x01020304);
    assert_memory_equal(b.data, "\x04\x03\x02\x01", 4);
}

TEST(plain, a_buffer_that_exceeded_its_limit_stays_failed)
{
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 4);
    buffer_put(&b, "1234", 4);
    assert_false(b.failed);
    buffer_put_u8(&b, 5);
    assert_true(b.failed);
    buffer_put(&b, "", 0);
    assert_true(b.failed);
    assert_int_equal(b.size, 4);
}

TEST(plain, a_buffer_grows_up_to_its_limit_and_no_further)
{
    BUFFER_AUTO struct buffer b;
    /* Doubling the initial capacity never gives exactly this limit. */
    buffer_init(&b, 300);
    for (int i = 0; i < 300; i++)
        buffer_put_u8(&b, (uint8_t)i);
    assert_false(b.failed);
    assert_int_equal(b.capacity, 300);
    buffer_put_u16(&b, 1);
    assert_true(b.failed);
    assert_int_equal(b.size, 300);
    for (int i = 0; i < 300; i++)
        assert_int_equal(b.data[i], (uint8_t)i);
}

TEST(plain, a_reader_refuses_a_length_beyond_its_end)
{
    const uint8_t lying[] = { 0xff, 0xff, 0xff, 0xff, 'x' };
    struct reader r = reader_of(bytes_of(lying, sizeof(lying)));
    assert_int_equal(reader_sized(&r).size, 0);
    assert_true(r.failed);
    assert_int_equal(reader_u8(&r), 0); /* a failed reader stays failed */
    assert_int_equal(reader_left(&r), 0);
}

TEST(plain, reading_from_no_bytes_fails_without_touching_memory)
{
    struct reader r = reader_of((struct bytes){ 0 });
    assert_int_equal(reader_u64(&r), 0);
    assert_true(r.failed);
}

TEST(plain, a_digest_is_read_back_from_hexadecimal)
{
    struct digest d, back;
    for (int i = 0; i < DIGEST_SIZE; i++)
        d.bytes[i] = (uint8_t)(i * 37);
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&d, hex);
    assert_int_equal(strlen(hex), 64);
    assert_true(digest_from_hex(hex, &back));
    assert_true(digest_equal(&d, &back));
}

TEST(plain, a_hexadecimal_digest_of_another_length_or_alphabet_is_refused)
{
    struct digest d;
    char hex[DIGEST_HEX_SIZE];
    memset(hex, 'a', 64);
    hex[64] = '\0';
    assert_true(digest_from_hex(hex, &d));
    hex[10] = 'g';
    assert_false(digest_from_hex(hex, &d));
    assert_false(digest_from_hex("abcd", &d));
    assert_false(digest_from_hex("", &d));
}

TEST(plain, the_end_of_a_text_is_compared)
{
    assert_true(text_ends_with("a.kpkg", ".kpkg"));
    assert_true(text_ends_with("kdb", "kdb"));
    assert_false(text_ends_with("db", "kdb"));
    assert_false(text_ends_with("a.kpkg.part", ".kpkg"));
}

TEST(plain, packed_texts_lie_one_after_another)
{
    char space[8] = "xxxxxxx", *at = space;
    assert_string_equal(bytes_pack_text(&at, bytes_of("abcd", 3)), "abc");
    assert_string_equal(bytes_pack_text(&at, bytes_of_text(NULL)), "");
    assert_ptr_equal(at, space + 5);
    assert_memory_equal(space, "abc\0\0xx", 8);
}
