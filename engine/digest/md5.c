/* SPDX-License-Identifier: MIT */
#include "engine/digest/md5.h"

#include "common/base/hex.h"

#include <nettle/md5.h>

#undef md5_init

_Static_assert(MD5_HEX_SIZE == 2 * MD5_DIGEST_SIZE + 1, "two digits a byte and a NUL");

_Static_assert(sizeof(struct md5_ctx) <= sizeof(((struct md5 *)0)->state),
               "struct md5 must hold nettle's state");

static struct md5_ctx *inner(struct md5 *m) { return (struct md5_ctx *)m->state; }

void md5_init(struct md5 *m) { nettle_md5_init(inner(m)); }

void md5_put(struct md5 *m, struct bytes part)
{
    if (part.size)
        nettle_md5_update(inner(m), part.size, part.data);
}

void md5_end(struct md5 *m, char hex[MD5_HEX_SIZE])
{
    uint8_t digest[MD5_DIGEST_SIZE];
    nettle_md5_digest(inner(m), sizeof(digest), digest);
    hex_write(digest, sizeof(digest), hex);
}

void md5_hex_of(struct bytes content, char hex[MD5_HEX_SIZE])
{
    struct md5 m;
    md5_init(&m);
    md5_put(&m, content);
    md5_end(&m, hex);
}
