/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The layout of an index file, for its writer and its reader; docs/formats/tuning-index.md explains
 * it. Numbers are little-endian; parts begin at multiples of 8.
 *
 * Threading  plain values
 */
#include "engine/digest/checksum.h"
#include "engine/tuning/family.h"
#include "engine/tuning/tuning_index.h"

#include <endian.h>

#define INDEX_MAGIC "kilntidx"
#define INDEX_VERSION 1u
#define INDEX_NONE UINT32_MAX

/* The limits of common/miopen/tuning_text.h; an index that exceeds them is damaged. */
#define INDEX_KEY_MAX (1u << 10)
#define INDEX_VALUE_MAX (64u << 10)
#define INDEX_IDS_MAX 256u
/* Limits of an index, 40 times the size of AMD's largest database. Without them, a damaged file
 * could make kiln allocate huge amounts of memory. */
#define INDEX_RECORDS_MAX (8u << 20)
#define INDEX_TEXT_MAX (2ull << 30)

enum index_part {
    PART_RECORDS,
    PART_KEY_SLOTS,
    PART_FAMILIES,
    PART_FAMILY_SLOTS,
    PART_MEMBERS,
    PART_IDS,
    PART_NAMES,
    PART_TEXT,
    INDEX_PARTS
};

struct index_extent {
    uint64_t offset, size; /* in bytes, from the beginning of the file */
};

struct index_header {
    char magic[8];
    uint32_t version;
    uint32_t zero;
    uint8_t digest[DIGEST_SIZE]; /* SHA-256 of the bytes from |kind| to the end of the file */
    uint64_t check;              /* checksum of this header, computed with 0 in this member */
    uint32_t kind;
    uint32_t zero_too;
    uint64_t file_size;
    uint64_t entries;
    uint64_t hash_key[2]; /* of both hash tables */
    struct index_extent parts[INDEX_PARTS];
    uint8_t room[32]; /* reserved; zeros */
};
_Static_assert(sizeof(struct index_header) == 256, "as documented");

struct index_record {
    uint64_t text; /* offset of the key in PART_TEXT; the value follows immediately */
    uint32_t key_size, value_size;
    uint64_t batch, volume, number;
    uint32_t first_id, id_count;
    uint32_t families[FAMILIES];
    uint64_t check; /* covers the members above, the key, the value and the ids */
};
_Static_assert(sizeof(struct index_record) == 64, "as documented");

struct index_family {
    uint64_t name; /* offset in PART_NAMES */
    uint32_t name_size;
    uint32_t first, count; /* index of the first member in PART_MEMBERS; number of members */
    uint32_t zero;
    uint64_t check; /* covers the members above and the name */
};
_Static_assert(sizeof(struct index_family) == 32, "as documented");

struct index_slot {
    uint32_t tag;   /* upper half of the hash */
    uint32_t place; /* index of the record or family plus one; 0: the slot is free */
};

static inline uint64_t index_record_check(const struct index_record *record, struct bytes text,
                                          struct bytes ids)
{
    uint64_t sum = checksum_put(0, bytes_of(record, offsetof(struct index_record, check)));
    return checksum_put(checksum_put(sum, text), ids);
}

static inline uint64_t index_family_check(const struct index_family *family, struct bytes name)
{
    uint64_t sum = checksum_put(0, bytes_of(family, offsetof(struct index_family, check)));
    return checksum_put(sum, name);
}

static inline uint64_t index_header_check(const struct index_header *header)
{
    struct index_header copy = *header;
    copy.check = 0;
    return checksum_put(0, bytes_of(&copy, sizeof(copy)));
}
