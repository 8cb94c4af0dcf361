/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_index.h"
#include "engine/fleet/fleet_index_format.h"

#include <string.h>

static int compare_prefixes(const void *a, const void *b)
{
    const struct fleet_entry *x = a, *y = b;
    return memcmp(x->key.bytes, y->key.bytes, FLEET_PREFIX_SIZE);
}

/* Orders entries with equal prefixes by their places, so that the result does not depend on the
 * order in which the caller passes them. */
static int compare_entries(const void *a, const void *b)
{
    const struct fleet_place *x = &((const struct fleet_entry *)a)->place,
                             *y = &((const struct fleet_entry *)b)->place;
    int order = compare_prefixes(a, b);
    if (order)
        return order;
    if (x->pack != y->pack)
        return x->pack < y->pack ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void sort_entries(struct fleet_index_draft *draft)
{
    uint32_t kept = 0;
    if (draft->entry_count == 0)
        return;
    qsort(draft->entries, draft->entry_count, sizeof(*draft->entries), compare_entries);
    for (uint32_t i = 1; i < draft->entry_count; i++) {
        if (compare_prefixes(&draft->entries[kept], &draft->entries[i]) != 0)
            draft->entries[++kept] = draft->entries[i];
    }
    draft->entry_count = kept + 1;
}

static void put_header(const struct fleet_index_draft *draft, struct buffer *index)
{
    buffer_put_sized(index, bytes_of_text(FLEET_INDEX_FORMAT));
    buffer_put_u64(index, draft->epoch);
    buffer_put_u64(index, draft->time);
    buffer_put_sized(index, draft->shard.target);
    buffer_put_sized(index, draft->shard.toolchain);
    buffer_put(index, draft->shard.toolchain_id.bytes, DIGEST_SIZE);
    buffer_put_u32(index, draft->pack_count);
    buffer_put_u32(index, draft->entry_count);
    for (uint32_t i = 0; i < draft->pack_count; i++) {
        buffer_put(index, draft->packs[i].sha256.bytes, DIGEST_SIZE);
        buffer_put_u32(index, draft->packs[i].size);
    }
}

static void put_entries(const struct fleet_index_draft *draft, struct buffer *index)
{
    for (uint32_t i = 0; i < draft->entry_count; i++)
        buffer_put(index, draft->entries[i].key.bytes, FLEET_PREFIX_SIZE);
    for (uint32_t i = 0; i < draft->entry_count; i++)
        buffer_put_u32(index, draft->entries[i].place.offset);
    for (uint32_t i = 0; i < draft->entry_count; i++)
        buffer_put_u32(index, draft->entries[i].place.size);
    for (uint32_t i = 0; i < draft->entry_count; i++)
        buffer_put_u16(index, draft->entries[i].place.pack);
}

enum kiln_code fleet_index_write(struct fleet_index_draft *draft, const struct fleet_signer *signer,
                                 struct buffer *ret_index, struct kiln_err *err)
{
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    sort_entries(draft);
    if (draft->entry_count > FLEET_KEYS_MAX || draft->pack_count > FLEET_PACKS_MAX)
        return kiln_fail(err, KILN_FULL,
                         "an index of the fleet has at most %u kernels in %u packs, not %u in %u",
                         FLEET_KEYS_MAX, FLEET_PACKS_MAX, draft->entry_count, draft->pack_count);
    buffer_clear(ret_index);
    put_header(draft, ret_index);
    put_entries(draft, ret_index);
    if (!ret_index->failed)
        ed25519_sign(signer->secret, buffer_view(ret_index), signature);
    buffer_put(ret_index, signer->key_id, FLEET_KEY_ID_SIZE);
    buffer_put(ret_index, signature, sizeof(signature));
    return ret_index->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for an index of the fleet")
                             : KILN_OK;
}
