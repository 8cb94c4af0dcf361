/* SPDX-License-Identifier: MIT */
#include "engine/digest/sha256.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK (256u << 10)

#undef sha256_init

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(((struct sha256 *)0)->state),
               "struct sha256 must hold nettle's state");
_Static_assert(SHA256_DIGEST_SIZE == DIGEST_SIZE, "a digest is a SHA-256");

static struct sha256_ctx *inner(struct sha256 *s) { return (struct sha256_ctx *)s->state; }

void sha256_init(struct sha256 *s) { nettle_sha256_init(inner(s)); }

void sha256_put(struct sha256 *s, struct bytes part)
{
    if (part.size)
        nettle_sha256_update(inner(s), part.size, part.data);
}

void sha256_put_sized(struct sha256 *s, struct bytes part)
{
    uint8_t length[8];
    for (size_t i = 0; i < sizeof(length); i++)
        length[i] = (uint8_t)((uint64_t)part.size >> (8 * i));
    sha256_put(s, bytes_of(length, sizeof(length)));
    sha256_put(s, part);
}

struct digest sha256_end(struct sha256 *s)
{
    struct digest d;
    nettle_sha256_digest(inner(s), sizeof(d.bytes), d.bytes);
    return d;
}

struct digest sha256_of(struct bytes content)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put(&s, content);
    return sha256_end(&s);
}

enum kiln_code sha256_of_file(int fd, struct digest *ret_sha256, uint64_t *ret_size,
                              struct kiln_err *err)
{
    struct sha256 s;
    off_t at = 0;
    KILN_AUTO(mem) uint8_t *chunk = malloc(CHUNK);
    if (!chunk)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a file");
    sha256_init(&s);
    for (;;) {
        ssize_t got = pread(fd, chunk, CHUNK, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kiln_fail_errno(err, errno, "cannot read the file");
        if (got == 0)
            break;
        sha256_put(&s, bytes_of(chunk, (size_t)got));
        at += got;
    }
    if (ret_size)
        *ret_size = (uint64_t)at;
    *ret_sha256 = sha256_end(&s);
    return KILN_OK;
}
