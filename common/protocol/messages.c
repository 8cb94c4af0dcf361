/* SPDX-License-Identifier: MIT */
#include "common/protocol/messages.h"

#define WRITE_U8(b, v) buffer_put_u8(b, v)
#define WRITE_U16(b, v) buffer_put_u16(b, v)
#define WRITE_U32(b, v) buffer_put_u32(b, v)
#define WRITE_U64(b, v) buffer_put_u64(b, v)
#define WRITE_DIGEST(b, v) buffer_put(b, (v).bytes, sizeof((v).bytes))
#define WRITE_PROBLEM(b, v) problem_write(b, &(v))
#define WRITE_BYTES(b, v) buffer_put_sized(b, v)

#define READ_U8 reader_u8
#define READ_U16 reader_u16
#define READ_U32 reader_u32
#define READ_U64 reader_u64
#define READ_DIGEST read_digest
#define READ_PROBLEM problem_read
#define READ_BYTES reader_sized

static struct digest read_digest(struct reader *r)
{
    struct digest d = { { 0 } };
    struct bytes raw = reader_take(r, sizeof(d.bytes));
    for (size_t i = 0; i < raw.size; i++)
        d.bytes[i] = raw.data[i];
    return d;
}

#define WRITE_FIELD(TYPE, field) WRITE_##TYPE(b, m->field);
#define READ_FIELD(TYPE, field) m.field = READ_##TYPE(r);
#define MESSAGE_DEFINE(name)                                                      \
    void message_##name##_write(struct buffer *b, const struct message_##name *m) \
    {                                                                             \
        KILN_FIELDS_##name(WRITE_FIELD)                                           \
    }                                                                             \
    struct message_##name message_##name##_read(struct reader *r)                 \
    {                                                                             \
        struct message_##name m;                                                  \
        KILN_FIELDS_##name(READ_FIELD) return m;                                  \
    }

#define MESSAGE_DEFINE_BINARY(name) MESSAGE_DEFINE(name)
#define MESSAGE_DEFINE_JSON(name)
#define MESSAGE_DEFINE_BINARY_FILES(name) MESSAGE_DEFINE_BINARY(name)
#define MESSAGE_DEFINE_JSON_FILES(name)
#define KILN_REQUEST(name, number, role, body, purpose) MESSAGE_DEFINE_##body(name)
#define KILN_REPLY(name, number, body, purpose) MESSAGE_DEFINE_##body(name)
#include "common/protocol/messages.def"
KILN_RECORDS(MESSAGE_DEFINE)
#undef KILN_REQUEST
#undef KILN_REPLY

static const char *const names[] = {
#define KILN_REQUEST(name, number, role, body, purpose) [number] = #name,
#define KILN_REPLY(name, number, body, purpose) [number] = #name,
#include "common/protocol/messages.def"
#undef KILN_REQUEST
#undef KILN_REPLY
};

const char *message_name(unsigned type)
{
    return type < sizeof(names) / sizeof(names[0]) && names[type] ? names[type] : "?";
}

enum kiln_code message_body_check(const struct reader *r, unsigned type, struct kiln_err *err)
{
    if (r->failed)
        return kiln_fail(err, KILN_INVALID, "body of '%s' ends too early", message_name(type));
    if (r->at != r->end)
        return kiln_fail(err, KILN_INVALID, "body of '%s' has %zu bytes too many",
                         message_name(type), (size_t)(r->end - r->at));
    return KILN_OK;
}

const char *tier_name(enum tier tier)
{
    static const char *const tiers[] = {
        [TIER_NONE] = "none",       [TIER_HOT] = "hot",     [TIER_DISK] = "disk",
        [TIER_PACKAGE] = "package", [TIER_FLEET] = "fleet", [TIER_COMPILED] = "compiled",
    };
    return (size_t)tier < sizeof(tiers) / sizeof(tiers[0]) && tiers[tier] ? tiers[tier] : "?";
}
