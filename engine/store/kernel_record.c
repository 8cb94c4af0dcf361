/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <string.h>

bool store_to_digest(struct bytes bytes, struct digest *ret_digest)
{
    if (bytes.size != sizeof(ret_digest->bytes))
        return false;
    memcpy(ret_digest->bytes, bytes.data, bytes.size);
    return true;
}

bool digest_is_known(const struct digest *digest)
{
    static const struct digest zeros;
    return !digest_equal(digest, &zeros);
}

int64_t store_scope_number(uint64_t scope)
{
    return scope == KERNEL_SCOPE_EVERYONE ? -1 : (int64_t)(uint32_t)scope;
}

enum object_kind store_kind(uint64_t number)
{
    return number < OBJECT_KINDS ? (enum object_kind)number : OBJECT_CODE;
}

uint64_t kernel_record_scope(const struct kernel_record *record)
{
    return record->is_private ? record->uid : KERNEL_SCOPE_EVERYONE;
}

struct kernel_record store_record(const struct query *q)
{
    struct kernel_record r = {
        .target = query_text(q, 3),
        .toolchain = query_text(q, 4),
        .program = query_text(q, 5),
        .options = query_text(q, 6),
        .raw_size = query_u64(q, 7),
        .stored_size = query_u64(q, 8),
        .compile_ns = query_u64(q, 9),
        .created = query_u64(q, 10),
        .last_used = query_u64(q, 11),
        .uses = query_u64(q, 12),
        .uid = (uint32_t)query_u64(q, 13),
        .id = query_u64(q, 14),
        .is_private = query_i64(q, 15) != -1,
        .database_id = query_text(q, 16),
        .package = query_text(q, 17),
        .version = query_text(q, 18),
        .pinned = query_u64(q, 21) != 0,
        .kind = store_kind(query_u64(q, 22)),
    };
    store_to_digest(query_bytes(q, 0), &r.key);
    store_to_digest(query_bytes(q, 1), &r.object);
    store_to_digest(query_bytes(q, 2), &r.toolchain_id);
    store_to_digest(query_bytes(q, 19), &r.source_id);
    store_to_digest(query_bytes(q, 20), &r.headers_id);
    store_to_digest(query_bytes(q, 23), &r.client_key);
    return r;
}

void store_bind_filter(struct query *q, const struct kernel_filter *filter)
{
    bool by_toolchain = digest_is_known(&filter->toolchain_id);
    query_bind_text(q, 2, filter->target);
    query_bind_text(q, 3, filter->program);
    query_bind_u64(q, 4, filter->older_than);
    query_bind_text(q, 6, filter->toolchain);
    query_bind_bytes(q, 7, by_toolchain ? digest_view(&filter->toolchain_id) : (struct bytes){ 0 });
    query_bind_text(q, 8, filter->database_id);
    query_bind_text(q, 9, filter->package);
    query_bind_i64(q, 10, filter->by_uid ? (int64_t)filter->uid : -1);
    query_bind_i64(q, 11, filter->by_scope ? store_scope_number(filter->scope) : -2);
    query_bind_u64(q, 12, filter->not_pinned);
    query_bind_i64(q, 13, filter->by_reader ? (int64_t)filter->reader : -1);
    query_bind_u64(q, 14, filter->kinds);
}
