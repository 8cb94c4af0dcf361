/* SPDX-License-Identifier: MIT */
#include "common/protocol/frame.h"

#include <endian.h>
#include <string.h>

struct wire {
    uint32_t magic;
    uint16_t version, type;
    uint64_t request_id;
    uint32_t body_size;
    uint16_t descriptors, flags;
};
_Static_assert(sizeof(struct wire) == FRAME_HEADER_SIZE, "a header is its numbers");

void frame_header_write(uint8_t raw[FRAME_HEADER_SIZE], const struct frame_header *h)
{
    const struct wire wire = {
        .magic = htole32(FRAME_MAGIC),
        .version = htole16(h->version),
        .type = htole16(h->type),
        .request_id = htole64(h->request_id),
        .body_size = htole32(h->body_size),
        .descriptors = htole16(h->descriptors),
        .flags = htole16(h->flags),
    };
    memcpy(raw, &wire, sizeof(wire));
}

enum kiln_code frame_header_read(const uint8_t raw[FRAME_HEADER_SIZE],
                                 struct frame_header *ret_header, struct kiln_err *err)
{
    struct wire wire;
    memcpy(&wire, raw, sizeof(wire));
    uint32_t magic = le32toh(wire.magic);
    const struct frame_header h = {
        .version = le16toh(wire.version),
        .type = le16toh(wire.type),
        .request_id = le64toh(wire.request_id),
        .body_size = le32toh(wire.body_size),
        .descriptors = le16toh(wire.descriptors),
        .flags = le16toh(wire.flags),
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
