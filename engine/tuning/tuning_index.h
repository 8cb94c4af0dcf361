/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An imported system database as one read-only file that is mapped rather than parsed
 * (docs/formats/tuning-index.md).
 *
 * Role       made once from MIOpen's file. After a restart, kiln can use it at once, and all
 *            processes of the host share one copy in memory. Has the records verbatim in source
 *            order, a hash table over keys, a second one over families (for the nearest record),
 *            and the ids of the rows in SQLite
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
/* Returns 0 for NULL. */
uint64_t tuning_index_builder_bytes(const struct tuning_index_builder *builder);
KILN_DEFINE_AUTO(tuning_index_builder)
/* Copies the record. If the record is too long, returns KILN_INVALID and leaves the builder
 * unchanged. Of two records with the same key, look-ups find the first. */
KILN_MUST_CHECK enum kiln_code tuning_index_builder_add(struct tuning_index_builder *builder,
                                                        const struct tuning_index_record *record,
                                                        struct kiln_err *err);
/* Renames a synced temporary file |path|.XXXXXX to |path|, so |path| is complete or unchanged.
 * After a crash, the temporary file remains. |ret_digest| is the digest in the header; the same
 * records always give the same digest. */
KILN_MUST_CHECK enum kiln_code tuning_index_builder_write(struct tuning_index_builder *builder,
                                                          const char *path,
                                                          struct digest *ret_digest,
                                                          struct kiln_err *err);

/* Checks the header, the size and the bounds of the tables. Reads only a few pages, even of a
 * large file. Every failure has a message. Returns KILN_NOT_FOUND if there is no file,
 * KILN_DENIED if others may write to it, KILN_CORRUPT if it is damaged, and KILN_UNSUPPORTED if
 * it has another version. */
KILN_MUST_CHECK enum kiln_code tuning_index_open(const char *path, struct tuning_index **ret_index,
                                                 struct kiln_err *err);
/* The image must be aligned to 8 bytes and stay unchanged for the index's lifetime. Returns the
 * codes of tuning_index_open. */
KILN_MUST_CHECK enum kiln_code tuning_index_open_image(struct bytes image, const char *name,
                                                       struct tuning_index **ret_index,
                                                       struct kiln_err *err);
/* With a reference, the index stays usable even after an import replaced it. Drop the reference
 * with tuning_index_destroy, on any thread. */
struct tuning_index *tuning_index_ref(struct tuning_index *index);
void tuning_index_destroy(struct tuning_index *index);
KILN_DEFINE_AUTO(tuning_index)
/* State of a comparison of the index with its digest, for `db verify`. Each call of
 * tuning_index_check_step reads up to 4 MiB. The caller zeroes the state first, and calls until
 * *ret_more is false. */
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
/* The value of a record follows its key. */
struct bytes tuning_index_text(const struct tuning_index *index);
/* How often a damaged record or family was read. */
uint64_t tuning_index_damaged(const struct tuning_index *index);
/* Returns false on a miss. */
bool tuning_index_find(struct tuning_index *index, struct bytes key, struct bytes *ret_value);
/* |place| is 0 to count - 1, in source order. Returns false if the record is damaged. |ret->ids|
 * are little-endian, as in the file. */
bool tuning_index_at(struct tuning_index *index, uint64_t place, struct tuning_index_record *ret);
/* Calls |each| in source order until |each| returns false. */
void tuning_index_family(struct tuning_index *index, struct bytes family,
                         bool (*each)(void *context, const struct tuning_index_record *record),
                         void *context);
