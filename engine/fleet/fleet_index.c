/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_index.h"

#include "common/protocol/limits.h"
#include "engine/fleet/fleet_index_format.h"

#include <endian.h>
#include <string.h>

#define PROOF_SIZE (FLEET_KEY_ID_SIZE + ED25519_SIGNATURE_SIZE)

struct fleet_index {
    struct buffer content; /* owned; all pointers below point into it */
    uint64_t epoch, time;
    struct fleet_shard shard;
    uint32_t pack_count, count;
    const uint8_t *packs, *prefixes, *offsets, *sizes, *pack_numbers;
    const uint8_t *key_id;
};

void fleet_index_destroy(struct fleet_index *index)
{
    if (index)
        buffer_done(&index->content);
    free(index);
}

static uint64_t prefix_at(const struct fleet_index *index, uint32_t number)
{
    uint64_t prefix;
    memcpy(&prefix, index->prefixes + (size_t)FLEET_PREFIX_SIZE * number, sizeof(prefix));
    return be64toh(prefix);
}

static uint32_t u32_at(const uint8_t *array, uint32_t number)
{
    uint32_t value;
    memcpy(&value, array + sizeof(value) * number, sizeof(value));
    return le32toh(value);
}

static struct fleet_place place_at(const struct fleet_index *index, uint32_t number)
{
    uint16_t pack;
    memcpy(&pack, index->pack_numbers + sizeof(pack) * number, sizeof(pack));
    return (struct fleet_place){ .pack = le16toh(pack),
                                 .offset = u32_at(index->offsets, number),
                                 .size = u32_at(index->sizes, number) };
}

struct fleet_pack fleet_index_pack(const struct fleet_index *index, uint32_t number)
{
    struct fleet_pack pack;
    struct reader r =
        reader_of(bytes_of(index->packs + (size_t)number * (DIGEST_SIZE + 4u), DIGEST_SIZE + 4u));
    memcpy(pack.sha256.bytes, reader_take(&r, DIGEST_SIZE).data, DIGEST_SIZE);
    pack.size = reader_u32(&r);
    return pack;
}

/* Returns whether the entry's key is larger than that of the previous entry, and whether the
 * entry's record is within its pack. Otherwise hosts would request bytes that the pack does not
 * have. */
static bool is_entry_sound(const struct fleet_index *index, uint32_t number)
{
    struct fleet_place place = place_at(index, number);
    if (place.pack >= index->pack_count || place.size == 0)
        return false;
    uint32_t pack_size = fleet_index_pack(index, place.pack).size;
    bool is_within = place.offset <= pack_size && place.size <= pack_size - place.offset;
    return is_within && (number == 0 || prefix_at(index, number - 1) < prefix_at(index, number));
}

static bool are_entries_sound(const struct fleet_index *index)
{
    for (uint32_t i = 0; i < index->count; i++) {
        if (!is_entry_sound(index, i))
            return false;
    }
    return true;
}

static void read_header(struct reader *r, struct fleet_index *index)
{
    index->epoch = reader_u64(r);
    index->time = reader_u64(r);
    index->shard.target = reader_sized(r);
    index->shard.toolchain = reader_sized(r);
    struct bytes id = reader_take(r, DIGEST_SIZE);
    if (id.size)
        memcpy(index->shard.toolchain_id.bytes, id.data, DIGEST_SIZE);
    index->pack_count = reader_u32(r);
    index->count = reader_u32(r);
}

static bool read_index(struct bytes text, struct fleet_index *index)
{
    struct reader r = reader_of(text);
    if (!bytes_equal_text(reader_sized(&r), FLEET_INDEX_FORMAT))
        return false;
    read_header(&r, index);
    if (r.failed || index->pack_count > FLEET_PACKS_MAX || index->count > FLEET_KEYS_MAX ||
        index->shard.target.size >= LIMIT_TARGET_TEXT)
        return false;
    index->packs = reader_take(&r, (size_t)index->pack_count * (DIGEST_SIZE + 4u)).data;
    index->prefixes = reader_take(&r, (size_t)index->count * FLEET_PREFIX_SIZE).data;
    index->offsets = reader_take(&r, (size_t)index->count * 4).data;
    index->sizes = reader_take(&r, (size_t)index->count * 4).data;
    index->pack_numbers = reader_take(&r, (size_t)index->count * 2).data;
    return !r.failed && reader_left(&r) == 0 && are_entries_sound(index);
}

static enum fleet_fault verify_index(const struct fleet_trust *trust, struct fleet_index *index)
{
    struct bytes whole = buffer_view(&index->content);
    if (whole.size < PROOF_SIZE || whole.size > FLEET_INDEX_MAX)
        return FLEET_FAULT_MALFORMED;
    struct bytes text = bytes_of(whole.data, whole.size - PROOF_SIZE);
    index->key_id = text.data + text.size;
    const struct fleet_signed proof = { text, index->key_id, index->key_id + FLEET_KEY_ID_SIZE };
    enum fleet_fault fault = fleet_trust_check_index(trust, &proof);
    if (fault)
        return fault;
    return read_index(text, index) ? FLEET_FAULT_NONE : FLEET_FAULT_MALFORMED;
}

enum kiln_code fleet_index_open(struct buffer *content, const struct fleet_trust *trust,
                                struct fleet_index **ret_index, enum fleet_fault *ret_fault,
                                struct kiln_err *err)
{
    struct fleet_index *index = calloc(1, sizeof(*index));
    if (!index)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an index of the fleet");
    index->content = *content;
    *ret_fault = verify_index(trust, index);
    if (*ret_fault) {
        free(index); /* |content| still belongs to the caller */
        return kiln_fail(err, KILN_CORRUPT, "an index of the fleet is not used: %s",
                         fleet_fault_text(*ret_fault));
    }
    *content = (struct buffer){ 0 };
    *ret_index = index;
    return KILN_OK;
}

static uint64_t prefix_of(const struct digest *key)
{
    uint64_t prefix;
    memcpy(&prefix, key->bytes, sizeof(prefix));
    return be64toh(prefix);
}

/* Estimates how many prefixes are in a range of |length| values. */
static uint32_t entries_within(const struct fleet_index *index, uint64_t length)
{
    return (uint32_t)((length >> 32) * index->count >> 32);
}

/* Estimates the position of a prefix (the first eight bytes of a key) from its value. This works
 * because keys are hashes, which are spread evenly. In an index of 100000 keys, the first estimate
 * is wrong by about a hundred entries, and each of the two corrections comes much closer. A binary
 * search alone would be slower: it would miss the processor's cache more than ten times. */
static uint32_t estimate_position(const struct fleet_index *index, uint64_t wanted)
{
    uint32_t at = entries_within(index, wanted);
    for (int i = 0; i < 2; i++) {
        uint64_t there = prefix_at(index, at);
        uint32_t off = entries_within(index, wanted < there ? there - wanted : wanted - there);
        if (wanted < there)
            at -= off < at ? off : at;
        else
            at += off < index->count - 1 - at ? off : index->count - 1 - at;
    }
    return at;
}

/* Returns the position of the first prefix that is not below |wanted|. Doubling steps from the
 * estimate find bounds for a binary search. If keys are not spread evenly, the search takes more
 * steps. */
static uint32_t find_position(const struct fleet_index *index, uint64_t wanted)
{
    uint32_t low = estimate_position(index, wanted), high = low;
    for (uint32_t step = 4; low > 0 && prefix_at(index, low) >= wanted; step *= 2)
        low -= step < low ? step : low;
    for (uint32_t step = 4; high < index->count && prefix_at(index, high) < wanted; step *= 2)
        high += step < index->count - high ? step : index->count - high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (prefix_at(index, middle) < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool fleet_index_find(const struct fleet_index *index, const struct digest *key,
                      struct fleet_place *ret_place)
{
    uint64_t wanted = prefix_of(key);
    uint32_t first = index->count ? find_position(index, wanted) : 0;
    if (first == index->count || prefix_at(index, first) != wanted)
        return false;
    *ret_place = place_at(index, first);
    return true;
}

struct fleet_shard fleet_index_shard(const struct fleet_index *index) { return index->shard; }

const uint8_t *fleet_index_signer(const struct fleet_index *index) { return index->key_id; }

uint64_t fleet_index_epoch(const struct fleet_index *index) { return index->epoch; }

uint64_t fleet_index_time(const struct fleet_index *index) { return index->time; }

uint32_t fleet_index_count(const struct fleet_index *index) { return index->count; }

size_t fleet_index_bytes(const struct fleet_index *index)
{
    return sizeof(*index) + index->content.capacity;
}

uint32_t fleet_index_packs(const struct fleet_index *index) { return index->pack_count; }

struct fleet_entry fleet_index_entry(const struct fleet_index *index, uint32_t number)
{
    struct fleet_entry entry = { .place = place_at(index, number) };
    memcpy(entry.key.bytes, index->prefixes + (size_t)FLEET_PREFIX_SIZE * number,
           FLEET_PREFIX_SIZE);
    return entry;
}
