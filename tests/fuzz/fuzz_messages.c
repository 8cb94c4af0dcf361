/* SPDX-License-Identifier: MIT */
/* Tests all messages of common/protocol/messages.def: if bytes decode to a message, the message
 * must encode to the same bytes. */
#include "tests/fuzz/fuzz.h"

#include "common/protocol/messages.h"

#include <stdlib.h>

static void compare(const struct reader *r, struct bytes body, const struct buffer *again)
{
    if (r->failed)
        return;
    struct bytes used = bytes_of(body.data, (size_t)(r->at - body.data));
    fuzz_expect(!again->failed && bytes_equal(used, buffer_view(again)),
                "a message can be read back");
}

#define CHECK(name)                                                                             \
    static void check_##name(struct bytes body)                                                 \
    {                                                                                           \
        struct kiln_err err = KILN_ERR_INIT;                                                    \
        struct reader r = reader_of(body);                                                      \
        struct message_##name m = message_##name##_read(&r);                                    \
        BUFFER_AUTO struct buffer again;                                                        \
        buffer_init(&again, body.size + 1);                                                     \
        message_##name##_write(&again, &m);                                                     \
        compare(&r, body, &again);                                                              \
        fuzz_expect(message_body_check(&r, 1, &err) != KILN_OK || (!r.failed && r.at == r.end), \
                    "a body that was taken was used whole");                                    \
    }
#define CHECK_BINARY(name) CHECK(name)
#define CHECK_BINARY_FILES(name) CHECK(name)
#define CHECK_JSON(name)
#define CHECK_JSON_FILES(name)
#define KILN_REQUEST(name, number, role, body, purpose) CHECK_##body(name)
#define KILN_REPLY(name, number, body, purpose) CHECK_##body(name)
#include "common/protocol/messages.def"
KILN_RECORDS(CHECK)
#undef KILN_REQUEST
#undef KILN_REPLY

#define ROW(name) check_##name,
#define ROW_BINARY(name) ROW(name)
#define ROW_BINARY_FILES(name) ROW(name)
#define ROW_JSON(name)
#define ROW_JSON_FILES(name)
static void (*const checks[])(struct bytes) = {
#define KILN_REQUEST(name, number, role, body, purpose) ROW_##body(name)
#define KILN_REPLY(name, number, body, purpose) ROW_##body(name)
#include "common/protocol/messages.def"
    KILN_RECORDS(ROW)
#undef KILN_REQUEST
#undef KILN_REPLY
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    unsigned which = reader_u8(&r);
    struct bytes body = fuzz_rest(&r);
    uint8_t *copy = fuzz_copy(body);
    checks[which % (sizeof(checks) / sizeof(checks[0]))](bytes_of(copy, body.size));
    free(copy);
    return 0;
}
