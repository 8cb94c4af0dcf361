/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The index of a shard (docs/formats/fleet.md). A shard is all kernels of one target and toolchain.
 * The index lists the keys of the shard's kernels and the places of their records.
 *
 * Role       answers from memory whether the fleet has a key, so that a look-up of a missing key
 *            sends no request. An index with wrong content costs requests and compiles, but never
 *            gives a wrong object, because each record is verified separately
 * Ownership  a struct fleet_index owns the file's bytes
 * Threading  an open index does not change, so any number of threads may read it
 */
#include "engine/fleet/fleet_trust.h"

#define FLEET_KEYS_MAX (1u << 20)
#define FLEET_PACKS_MAX 4096u
#define FLEET_INDEX_MAX (FLEET_KEYS_MAX * 18u + FLEET_PACKS_MAX * 40u + 4096u)

struct fleet_pack {
    struct digest sha256;
    uint32_t size; /* bytes */
};

struct fleet_place { /* where a record is */
    uint16_t pack;   /* the pack's number in the index */
    uint32_t offset, size;
};

struct fleet_index;

/* Verifies an index. On success, takes ownership of the bytes of |content|. Returns KILN_CORRUPT,
 * with the reason in |ret_fault|, if the index is malformed, or if no key that may sign indices
 * signed it. The caller must check the shard and the epoch. */
KILN_MUST_CHECK enum kiln_code fleet_index_open(struct buffer *content,
                                                const struct fleet_trust *trust,
                                                struct fleet_index **ret_index,
                                                enum fleet_fault *ret_fault, struct kiln_err *err);
void fleet_index_destroy(struct fleet_index *index);
KILN_DEFINE_AUTO(fleet_index)

/* Finds the record of |key|. Returns false if the index has no such key. The index compares only
 * the first eight bytes, so the caller must check the whole key, which the record states. */
bool fleet_index_find(const struct fleet_index *index, const struct digest *key,
                      struct fleet_place *ret_place);
struct fleet_shard fleet_index_shard(const struct fleet_index *index);
const uint8_t *fleet_index_signer(const struct fleet_index *index);
uint64_t fleet_index_epoch(const struct fleet_index *index);
uint64_t fleet_index_time(const struct fleet_index *index);
uint32_t fleet_index_count(const struct fleet_index *index);
size_t fleet_index_bytes(const struct fleet_index *index); /* bytes of memory */
uint32_t fleet_index_packs(const struct fleet_index *index);
struct fleet_pack fleet_index_pack(const struct fleet_index *index, uint32_t number);

struct fleet_entry {
    struct digest key; /* only its first eight bytes are stored in an index */
    struct fleet_place place;
};
/* Returns the entry |number|, counted from 0. Only the first eight bytes of its key are set. */
struct fleet_entry fleet_index_entry(const struct fleet_index *index, uint32_t number);

struct fleet_index_draft { /* borrowed */
    struct fleet_shard shard;
    uint64_t epoch; /* larger than that of every earlier index of the shard */
    uint64_t time;  /* seconds since 1970 */
    const struct fleet_pack *packs;
    uint32_t pack_count;
    struct fleet_entry *entries; /* fleet_index_write sorts them, and keeps one for each prefix */
    uint32_t entry_count;
};
KILN_MUST_CHECK enum kiln_code fleet_index_write(struct fleet_index_draft *draft,
                                                 const struct fleet_signer *signer,
                                                 struct buffer *ret_index, struct kiln_err *err);
