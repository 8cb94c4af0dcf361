/* SPDX-License-Identifier: MIT */
#include "common/frame.h"

static void store(uint8_t *at, uint64_t v, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

void frame_header_write(uint8_t raw[FRAME_HEADER_SIZE], const struct frame_header *h)
{
    store(raw, FRAME_MAGIC, 4);
    store(raw + 4, h->version, 2);
    store(raw + 6, h->type, 2);
    store(raw + 8, h->request_id, 8);
    store(raw + 16, h->body_size, 4);
    store(raw + 20, h->descriptors, 2);
    store(raw + 22, h->flags, 2);
}

enum kiln_code frame_header_read(const uint8_t raw[FRAME_HEADER_SIZE],
                                 struct frame_header *ret_header, struct kiln_err *err)
{
    struct reader r = reader_of(bytes_of(raw, FRAME_HEADER_SIZE));
    uint32_t magic = reader_u32(&r);
    struct frame_header h = {
        .version = reader_u16(&r),
        .type = reader_u16(&r),
        .request_id = reader_u64(&r),
        .body_size = reader_u32(&r),
        .descriptors = reader_u16(&r),
        .flags = reader_u16(&r),
    };
    if (magic != FRAME_MAGIC)
        return kiln_fail(err, KILN_INVALID, "not a kiln frame: magic is %08x", (unsigned)magic);
    if (h.body_size > LIMIT_FRAME_BODY)
        return kiln_fail(err, KILN_INVALID, "frame body of %u bytes exceeds the limit of %u",
                         (unsigned)h.body_size, LIMIT_FRAME_BODY);
    if (h.descriptors > LIMIT_FRAME_DESCRIPTORS)
        return kiln_fail(err, KILN_INVALID, "frame with %u descriptors exceeds the limit of %u",
                         (unsigned)h.descriptors, LIMIT_FRAME_DESCRIPTORS);
    *ret_header = h;
    return KILN_OK;
}
