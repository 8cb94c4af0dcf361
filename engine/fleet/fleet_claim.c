/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_claim.h"

#include "common/protocol/limits.h"

#include <string.h>

#define SHORT_TEXT_MAX 63

static void put_digest(struct buffer *b, const struct digest *digest)
{
    buffer_put(b, digest->bytes, DIGEST_SIZE);
}

/* Returns whether |text| has no control characters. The texts of a claim are stored, and appear in
 * messages. */
static bool is_clean(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < ' ' || text.data[i] == 0x7f)
            return false;
    }
    return true;
}

static bool are_clean(const struct fleet_claim *c)
{
    return is_clean(c->shard.target) && is_clean(c->shard.toolchain) && is_clean(c->program) &&
           is_clean(c->options) && is_clean(c->version);
}

static bool is_fine(const struct fleet_claim *c)
{
    return are_clean(c) && c->raw_size > 0 && c->raw_size <= FLEET_OBJECT_MAX &&
           c->shard.target.size > 0 && c->shard.target.size < LIMIT_TARGET_TEXT &&
           c->shard.toolchain.size <= SHORT_TEXT_MAX && c->program.size <= LIMIT_PROGRAM_NAME &&
           c->options.size <= LIMIT_OPTIONS_TEXT && c->version.size <= SHORT_TEXT_MAX;
}

enum kiln_code fleet_claim_encode(const struct fleet_claim *claim, struct buffer *ret_text,
                                  struct kiln_err *err)
{
    if (!is_fine(claim))
        return kiln_fail(err, KILN_INVALID,
                         "the kernel '%.*s' has a control character, or exceeds a limit",
                         (int)(claim->program.size > 80 ? 80 : claim->program.size),
                         (const char *)claim->program.data);
    buffer_put_sized(ret_text, bytes_of_text(FLEET_CLAIM_FORMAT));
    buffer_put(ret_text, claim->builder, FLEET_KEY_ID_SIZE);
    put_digest(ret_text, &claim->key);
    put_digest(ret_text, &claim->object);
    buffer_put_u64(ret_text, claim->raw_size);
    buffer_put_sized(ret_text, claim->shard.target);
    buffer_put_sized(ret_text, claim->shard.toolchain);
    put_digest(ret_text, &claim->shard.toolchain_id);
    buffer_put_sized(ret_text, claim->program);
    buffer_put_sized(ret_text, claim->options);
    put_digest(ret_text, &claim->source_id);
    put_digest(ret_text, &claim->headers_id);
    buffer_put_u64(ret_text, claim->compile_ns);
    buffer_put_u64(ret_text, claim->time);
    buffer_put_sized(ret_text, claim->version);
    return ret_text->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a claim") : KILN_OK;
}

static struct digest read_digest(struct reader *r)
{
    struct digest digest = { { 0 } };
    struct bytes part = reader_take(r, DIGEST_SIZE);
    if (part.size)
        memcpy(digest.bytes, part.data, DIGEST_SIZE);
    return digest;
}

static void read_members(struct reader *r, struct fleet_claim *c)
{
    struct bytes builder = reader_take(r, FLEET_KEY_ID_SIZE);
    if (builder.size)
        memcpy(c->builder, builder.data, FLEET_KEY_ID_SIZE);
    c->key = read_digest(r);
    c->object = read_digest(r);
    c->raw_size = reader_u64(r);
    c->shard.target = reader_sized(r);
    c->shard.toolchain = reader_sized(r);
    c->shard.toolchain_id = read_digest(r);
    c->program = reader_sized(r);
    c->options = reader_sized(r);
    c->source_id = read_digest(r);
    c->headers_id = read_digest(r);
    c->compile_ns = reader_u64(r);
    c->time = reader_u64(r);
    c->version = reader_sized(r);
}

bool fleet_claim_decode(struct bytes text, struct fleet_claim *ret_claim)
{
    struct reader r = reader_of(text);
    struct fleet_claim claim = { .raw_size = 0 };
    if (text.size > FLEET_CLAIM_MAX || !bytes_equal_text(reader_sized(&r), FLEET_CLAIM_FORMAT))
        return false;
    read_members(&r, &claim);
    if (r.failed || reader_left(&r) || !is_fine(&claim))
        return false;
    *ret_claim = claim;
    return true;
}
