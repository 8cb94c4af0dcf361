/* SPDX-License-Identifier: MIT */
/* Tests that the frames read from a stream do not depend on the pieces in which the stream
 * arrives. */
#include "tests/fuzz/fuzz.h"

#include "daemon/server/inbox.h"

#include <string.h>

#define SCRATCH 512
#define ROOM_FOR_ALL (64u << 20)

struct result {
    uint64_t hash; /* hash of the headers and bodies, in order */
    unsigned frames;
    enum kiln_code end;
    bool partial;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void note(struct result *result, const struct frame_header *header, struct bytes body)
{
    uint8_t raw[FRAME_HEADER_SIZE];
    struct frame_header again;
    struct kiln_err err = KILN_ERR_INIT;
    fuzz_expect(body.size == header->body_size, "a frame's body is as long as its header says");
    frame_header_write(raw, header);
    fuzz_expect(frame_header_read(raw, &again, &err) == KILN_OK, "a header can be read back");
    result->hash = bytes_hash(bytes_of(raw, sizeof(raw)), result->hash);
    result->hash = bytes_hash(body, result->hash);
    result->frames++;
}

/* Copies |part| into |iov|, as recvmsg would. */
static size_t receive(const struct iovec *iov, int count, struct bytes part)
{
    size_t done = 0;
    for (int i = 0; i < count && done < part.size; i++) {
        size_t size = part.size - done < iov[i].iov_len ? part.size - done : iov[i].iov_len;
        if (size > 0)
            memcpy(iov[i].iov_base, part.data + done, size);
        done += size;
    }
    return done;
}

static struct result feed(struct bytes stream, uint64_t seed, size_t most, size_t limit)
{
    struct result result = { .hash = 1, .end = KILN_NOT_FOUND };
    struct accounts all = { .limits = { .bytes = SIZE_MAX } };
    struct account account = { .all = &all, .limit = limit };
    struct inbox inbox;
    uint8_t scratch[SCRATCH];
    struct frame_header header;
    struct kiln_err err = KILN_ERR_INIT;
    inbox_init(&inbox, &account);
    while (stream.size > 0 && result.end == KILN_NOT_FOUND) {
        struct iovec iov[2];
        int count = inbox_buffers(&inbox, bytes_of(scratch, sizeof(scratch)), iov);
        size_t size = 1 + (size_t)(next_random(&seed) % most);
        size = size < stream.size ? size : stream.size;
        size_t got = receive(iov, count, bytes_of(stream.data, size));
        stream = bytes_of(stream.data + got, stream.size - got);
        struct bytes from = inbox_received(&inbox, bytes_of(scratch, sizeof(scratch)), got);
        struct bytes body;
        while (!(result.end = inbox_next(&inbox, &from, &header, &body, &err)))
            note(&result, &header, body);
        fuzz_expect(result.end != KILN_NOT_FOUND || from.size == 0, "nothing is left lying");
        fuzz_expect(account.bytes <= account.limit, "no more is held than the account allows");
    }
    result.partial = inbox_is_partial(&inbox);
    inbox_done(&inbox);
    fuzz_expect(account.bytes == 0 && all.bytes == 0, "the account is given back what it lent");
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    uint64_t seed = reader_u8(&r) + 1u;
    struct bytes stream = fuzz_rest(&r);
    struct result whole = feed(stream, seed, SCRATCH, ROOM_FOR_ALL);
    struct result parts = feed(stream, seed, 1 + seed, ROOM_FOR_ALL);
    fuzz_expect(whole.hash == parts.hash && whole.frames == parts.frames, "the same frames");
    fuzz_expect(whole.end == parts.end, "the same end");
    fuzz_expect(whole.end == KILN_INVALID || whole.partial == parts.partial, "the same rest");
    feed(stream, seed, 1 + seed, seed * 64);
    return 0;
}
