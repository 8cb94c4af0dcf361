/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An imported system database as one read-only file: mapped, not parsed
 * (docs/formats/tuning-index.md).
 *
 * Role       compiled once from MIOpen's file, then ready at once after a restart; one physical
 *            copy for the host.  Holds the records verbatim in the order of their source, a hash
 *            table over keys, a second one over families (for the nearest), and the ids of SQLite's
 *            rows
 * Ownership  an index owns its mapping, or borrows an image; what look-ups return is borrowed from
 * it Threading  building: one thread; reading: any thread, at the same time
 *
 * Hostile: a file that is shortened while mapped would kill the reader, so only files that belong
 * to us or to root, and that nobody else may write, are mapped; every offset is checked against the
 * mapping when it is followed.  A record that fails its checksum is a miss.
 */
#include "common/digest.h"
#include "common/err.h"
#include "common/tuning_text.h"
#include "engine/tuning/family.h"

struct tuning_index;
struct tuning_index_builder;

struct tuning_index_record {
    struct bytes key, value; /* as in the source */
    struct kinship kin;
    uint64_t number;     /* line or config id */
    const uint64_t *ids; /* of SQLite's rows, one an entry; NULL for text */
    size_t id_count;
};

/* ---- building ---- */

KILN_MUST_CHECK enum kiln_code tuning_index_builder_create(
    enum tuning_kind kind, struct tuning_index_builder **ret_builder, struct kiln_err *err);
void tuning_index_builder_destroy(struct tuning_index_builder *builder);
KILN_DEFINE_AUTO(tuning_index_builder)
/* Copies it.  KILN_INVALID, with the builder as before: longer than a record may be.  Of two equal
 * keys the first answers. */
KILN_MUST_CHECK enum kiln_code tuning_index_builder_add(struct tuning_index_builder *builder,
                                                        const struct tuning_index_record *record,
                                                        struct kiln_err *err);
/* Written beside |path| (|path|.XXXXXX, which a crash leaves behind), synced, renamed: whole or not
 * at all. |ret_digest| of its content, which the file's own header holds too: the same records give
 * the same. */
KILN_MUST_CHECK enum kiln_code tuning_index_builder_write(struct tuning_index_builder *builder,
                                                          const char *path,
                                                          struct digest *ret_digest,
                                                          struct kiln_err *err);

/* ---- reading ---- */

/* Maps it and checks header, size and tables' bounds: a few pages are read, however large it is.
 * KILN_NOT_FOUND with a sentence; KILN_DENIED: not ours alone; KILN_CORRUPT; KILN_UNSUPPORTED: of
 * another version. */
KILN_MUST_CHECK enum kiln_code tuning_index_open(const char *path, struct tuning_index **ret_index,
                                                 struct kiln_err *err);
/* One that lies in memory, at a multiple of 8, and stays there unchanged longer than the index
 * does. Codes as above. */
KILN_MUST_CHECK enum kiln_code tuning_index_open_image(struct bytes image, const char *name,
                                                       struct tuning_index **ret_index,
                                                       struct kiln_err *err);
void tuning_index_destroy(struct tuning_index *index);
KILN_DEFINE_AUTO(tuning_index)
/* Reads it all and compares the digest; for `db verify`. */
KILN_MUST_CHECK enum kiln_code tuning_index_verify(const struct tuning_index *index,
                                                   struct kiln_err *err);
enum tuning_kind tuning_index_kind(const struct tuning_index *index);
struct digest tuning_index_digest(const struct tuning_index *index);
uint64_t tuning_index_count(const struct tuning_index *index);   /* records */
uint64_t tuning_index_entries(const struct tuning_index *index); /* entries of all records */
uint64_t tuning_index_bytes(const struct tuning_index *index);   /* of the file */
/* Damaged records and families that reading met so far, each as often as it was met. */
uint64_t tuning_index_damaged(const struct tuning_index *index);
/* False on a miss. */
bool tuning_index_find(struct tuning_index *index, struct bytes key, struct bytes *ret_value);
/* Records by their place in the source, 0 to count - 1; false: damaged.  |ret->ids| are the file's
 * little-endian numbers. */
bool tuning_index_at(struct tuning_index *index, uint64_t place, struct tuning_index_record *ret);
/* Every record of the family of this name (struct kinship), in the order of the source, until
 * |each| returns false. */
void tuning_index_family(struct tuning_index *index, struct bytes family,
                         bool (*each)(void *context, const struct tuning_index_record *record),
                         void *context);
