/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An imported system database as one read-only file that is mapped rather than parsed
 * (docs/formats/tuning-index.md).
 *
 * Role       kiln makes an index once from MIOpen's file. After a restart, the index is usable at
 *            once. All processes of the host share one copy in memory
 * Ownership  an index owns its mapping, or borrows an image; look-ups return data borrowed from it
 * Threading  building: one thread; reading: any number of threads
 *
 * The file is untrusted. If somebody truncated a mapped file, a reader would die of SIGBUS. So kiln
 * maps only files that belong to this user or to root and that no other user may write. Every
 * offset is checked before use. A record that fails its checksum is a miss.
 */
#include "common/base/digest.h"
#include "common/base/err.h"
#include "common/miopen/tuning_text.h"
#include "engine/digest/sha256.h"
#include "engine/tuning/family.h"

struct tuning_index;
struct tuning_index_builder;

struct tuning_index_record {
    struct bytes key, value;
    struct kinship kin;
    uint64_t number;     /* line of a text file, or config id in SQLite */
    const uint64_t *ids; /* row ids of SQLite, one for each entry; NULL for text files */
    size_t id_count;
};

KILN_MUST_CHECK enum kiln_code tuning_index_builder_create(
    enum tuning_kind kind, struct tuning_index_builder **ret_builder, struct kiln_err *err);
void tuning_index_builder_destroy(struct tuning_index_builder *builder);
uint64_t tuning_index_builder_bytes(const struct tuning_index_builder *builder);
KILN_DEFINE_AUTO(tuning_index_builder)
/* Returns KILN_INVALID for a record that is too long, and leaves the builder unchanged. Of two
 * records with the same key, look-ups find the first. */
KILN_MUST_CHECK enum kiln_code tuning_index_builder_add(struct tuning_index_builder *builder,
                                                        const struct tuning_index_record *record,
                                                        struct kiln_err *err);
/* Writes and syncs a temporary file |path|.XXXXXX, then renames it to |path|. A crash may leave the
 * temporary file. The same records always give the same |ret_digest|. */
KILN_MUST_CHECK enum kiln_code tuning_index_builder_write(struct tuning_index_builder *builder,
                                                          const char *path,
                                                          struct digest *ret_digest,
                                                          struct kiln_err *err);

/* Reads only a few pages, even of a large file. Returns KILN_NOT_FOUND if there is no file,
 * KILN_DENIED if others may write to it, KILN_CORRUPT if it is damaged, and KILN_UNSUPPORTED if
 * it has another version. Every failure has a message. */
KILN_MUST_CHECK enum kiln_code tuning_index_open(const char *path, struct tuning_index **ret_index,
                                                 struct kiln_err *err);
/* Returns the same codes as tuning_index_open. The image must be aligned to 8 bytes and stay
 * unchanged. */
KILN_MUST_CHECK enum kiln_code tuning_index_open_image(struct bytes image, const char *name,
                                                       struct tuning_index **ret_index,
                                                       struct kiln_err *err);
/* Takes a reference, which keeps the index usable even after an import replaced it.
 * tuning_index_destroy drops the reference, on any thread. */
struct tuning_index *tuning_index_ref(struct tuning_index *index);
void tuning_index_destroy(struct tuning_index *index);
KILN_DEFINE_AUTO(tuning_index)
/* State of a comparison of the index's contents with its digest. Each step reads up to 4 MiB. The
 * caller zeroes the state first, and calls tuning_index_check_step until *ret_more is false. */
struct tuning_index_check {
    size_t at;
    struct sha256 sum;
};
KILN_MUST_CHECK enum kiln_code tuning_index_check_step(const struct tuning_index *index,
                                                       struct tuning_index_check *check,
                                                       bool *ret_more, struct kiln_err *err);
enum tuning_kind tuning_index_kind(const struct tuning_index *index);
struct digest tuning_index_digest(const struct tuning_index *index);
uint64_t tuning_index_count(const struct tuning_index *index);
uint64_t tuning_index_entries(const struct tuning_index *index);
uint64_t tuning_index_bytes(const struct tuning_index *index);
/* Returns all keys and values; the value of a record follows its key. */
struct bytes tuning_index_text(const struct tuning_index *index);
/* Returns how many times a damaged record or family was read. */
uint64_t tuning_index_damaged(const struct tuning_index *index);
bool tuning_index_find(struct tuning_index *index, struct bytes key, struct bytes *ret_value);
/* Reads the record with number |place|, from 0, in the order of the source file. Returns false for
 * a damaged record. |ret->ids| are little-endian. */
bool tuning_index_at(struct tuning_index *index, uint64_t place, struct tuning_index_record *ret);
/* Calls |each| for the records of the family, in source order, until |each| returns false. */
void tuning_index_family(struct tuning_index *index, struct bytes family,
                         bool (*each)(void *context, const struct tuning_index_record *record),
                         void *context);
