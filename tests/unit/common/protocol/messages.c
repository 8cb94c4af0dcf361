/* SPDX-License-Identifier: MIT */
#include "common/protocol/messages.h"
#include "tests/support/test.h"

#include <string.h>

TEST(plain, a_frame_header_is_read_back)
{
    struct frame_header h = { .version = 1,
                              .type = MESSAGE_fetch,
                              .request_id = 0x1122334455667788u,
                              .body_size = 36,
                              .descriptors = 2,
                              .flags = FRAME_MORE };
    uint8_t raw[FRAME_HEADER_SIZE];
    struct frame_header back;
    struct kiln_err err = KILN_ERR_INIT;
    frame_header_write(raw, &h);
    assert_memory_equal(raw, "KILN", 4);
    must(frame_header_read(raw, &back, &err), err);
    assert_int_equal(back.request_id, h.request_id);
    assert_int_equal(back.type, h.type);
    assert_int_equal(back.body_size, h.body_size);
    assert_int_equal(back.descriptors, h.descriptors);
    assert_int_equal(back.flags, h.flags);
}

TEST(plain, an_invalid_frame_header_is_refused)
{
    struct frame_header h = { .version = 1, .type = MESSAGE_ping };
    uint8_t raw[FRAME_HEADER_SIZE];
    struct frame_header back;
    struct kiln_err err = KILN_ERR_INIT;

    frame_header_write(raw, &h);
    raw[0] = 'X';
    assert_int_equal(frame_header_read(raw, &back, &err), KILN_INVALID);
    assert_says(err.text, "kiln frame");

    h.body_size = LIMIT_FRAME_BODY + 1;
    frame_header_write(raw, &h);
    assert_int_equal(frame_header_read(raw, &back, &err), KILN_INVALID);
    assert_says(err.text, "limit");

    h.body_size = 0;
    h.descriptors = LIMIT_FRAME_DESCRIPTORS + 1;
    frame_header_write(raw, &h);
    assert_int_equal(frame_header_read(raw, &back, &err), KILN_INVALID);
    assert_says(err.text, "descriptors");
}

TEST(plain, a_binary_message_is_read_back)
{
    struct message_result m = {
        .index = 7,
        .code = KILN_COMPILE_FAILED,
        .tier = TIER_COMPILED,
        .descriptor = NO_DESCRIPTOR,
        .key = { { 1, 2, 3 } },
        .size = 1u << 20,
        .spent_ns = 12345,
        .content = bytes_of_text("object"),
        .text = bytes_of_text("it failed"),
        .log = bytes_of_text(""),
    };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 4096);
    message_result_write(&b, &m);
    struct reader r = reader_of(buffer_view(&b));
    struct message_result back = message_result_read(&r);
    assert_false(r.failed);
    assert_int_equal(reader_left(&r), 0);
    assert_int_equal(back.index, 7);
    assert_int_equal(back.code, KILN_COMPILE_FAILED);
    assert_true(digest_equal(&back.key, &m.key));
    assert_true(bytes_equal_text(back.content, "object"));
    assert_true(bytes_equal_text(back.text, "it failed"));
    assert_int_equal(back.log.size, 0);
}

TEST(plain, every_truncated_message_is_refused)
{
    struct message_fetch_source m = { .target = bytes_of_text("gfx90a"),
                                      .program = bytes_of_text("p"),
                                      .source = bytes_of_text("source") };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 4096);
    message_fetch_source_write(&b, &m);
    struct kiln_err err = KILN_ERR_INIT;
    for (size_t size = 0; size < b.size; size++) {
        struct reader r = reader_of(bytes_of(b.data, size));
        message_fetch_source_read(&r);
        assert_int_equal(message_body_check(&r, MESSAGE_fetch_source, &err), KILN_INVALID);
        assert_says(err.text, "fetch_source");
    }
}

TEST(plain, bytes_after_the_last_field_of_a_message_are_refused)
{
    struct message_fetch m = { .inline_limit = 1 };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 4096);
    message_fetch_write(&b, &m);
    buffer_put_u8(&b, 0);
    struct reader r = reader_of(buffer_view(&b));
    message_fetch_read(&r);
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(message_body_check(&r, MESSAGE_fetch, &err), KILN_INVALID);
    assert_says(err.text, "1 bytes");
}

TEST(plain, every_message_number_has_a_name)
{
    assert_string_equal(message_name(MESSAGE_hello), "hello");
    assert_string_equal(message_name(MESSAGE_error), "error");
    assert_string_equal(message_name(0), "?");
    assert_string_equal(message_name(65535), "?");
    assert_string_equal(tier_name(TIER_DISK), "disk");
}
