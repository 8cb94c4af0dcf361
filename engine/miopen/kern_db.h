/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's kernel database: table kern_db of a .kdb or .ukdb file (docs/formats/kdb.md).
 *
 * Role       reads files of any origin, which may be damaged; writes files that an unmodified
 *            MIOpen can read
 * Ownership  results are appended to buffers of the caller; a callback may use a row's texts only
 *            during the call
 * Threading  one thread at a time for each kern_db
 *
 * A row is correct if it has the requested name and arguments (the index may be wrong), if its blob
 * unpacks to exactly uncompressed_size bytes, and if the MD5 of these bytes is kernel_hash.  Every
 * other row is damaged: it counts as a miss.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct kern_db;

/* Opens a file that nobody changes while it is open: locks and a write-ahead log are ignored.
 * Returns KILN_CORRUPT if the file is damaged, of another kind, or lacks the table or a column. */
KILN_MUST_CHECK enum kiln_code kern_db_open(const char *path, struct kern_db **ret_db,
                                            struct kiln_err *err);
/* Opens a database in memory. |image| must stay valid until kern_db is closed. |name| is for
 * messages. */
KILN_MUST_CHECK enum kiln_code kern_db_open_image(struct bytes image, const char *name,
                                                  struct kern_db **ret_db, struct kiln_err *err);
void kern_db_destroy(struct kern_db *db);
KILN_DEFINE_AUTO(kern_db)

struct kern_name { /* compared byte for byte */
    struct bytes name, args;
};

struct kern_row {
    uint64_t id;
    struct bytes name; /* such as "conv3x3.s.o"; any bytes except NUL */
    struct bytes args;
    struct bytes stored;
    struct bytes md5;
    uint64_t raw_size; /* 0 if the blob is not compressed */
};

/* Appends the unpacked object.  Returns KILN_NOT_FOUND without a message if there is no such row.
 * If the row fails its check, sets |ret_damaged| and returns KILN_NOT_FOUND with a message. */
KILN_MUST_CHECK enum kiln_code kern_db_find(struct kern_db *db, const struct kern_name *name,
                                            struct buffer *ret_raw, bool *ret_damaged,
                                            struct kiln_err *err);
/* Returns KILN_CORRUPT if the row has no name or no object, or if these exceed kiln's limits
 * (LIMIT_NAMED_TEXT, LIMIT_CODE_OBJECT). */
KILN_MUST_CHECK enum kiln_code kern_row_check(const struct kern_row *row, struct kiln_err *err);
/* Checks one row as kern_db_find does, and appends its unpacked object.  Returns KILN_CORRUPT if
 * the row is damaged. */
KILN_MUST_CHECK enum kiln_code kern_row_unpack(const struct kern_row *row, struct buffer *ret_raw,
                                               struct kiln_err *err);
struct kern_unpacking;
/* Begins to unpack an object piece by piece, for callers that must not block for long. Until the
 * end, the caller must keep the bytes to which |row|'s members point, but not |row| itself. */
KILN_MUST_CHECK enum kiln_code kern_unpacking_begin(const struct kern_row *row,
                                                    struct kern_unpacking **ret_unpacking,
                                                    struct kiln_err *err);
/* Stores at most |size| bytes and reads at most 64 KiB of the blob.  So |ret_got| may be less than
 * |size|, even 0, before the object's end. */
KILN_MUST_CHECK enum kiln_code kern_unpacking_read(struct kern_unpacking *unpacking, void *into,
                                                   size_t size, size_t *ret_got,
                                                   struct kiln_err *err);
bool kern_unpacking_is_over(const struct kern_unpacking *unpacking);
void kern_unpacking_destroy(struct kern_unpacking *unpacking);
KILN_DEFINE_AUTO(kern_unpacking)
struct kern_listing {
    uint64_t after; /* lists only rows with a higher id */
    uint64_t count;
    bool (*each)(void *context, const struct kern_row *row); /* returns false to stop */
    void *context;
};
/* Lists rows in the order of their ids, neither unpacked nor checked. Returns KILN_CORRUPT if a row
 * cannot be read, after |each| was called for the rows before it. */
KILN_MUST_CHECK enum kiln_code kern_db_each(struct kern_db *db, const struct kern_listing *listing,
                                            struct kiln_err *err);
/* Checks the pages, and that the table and its index have the same rows. Does not check the rows'
 * objects. Reads the whole file in one call. */
KILN_MUST_CHECK enum kiln_code kern_db_check(struct kern_db *db, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kern_db_count(struct kern_db *db, uint64_t *ret_rows,
                                             struct kiln_err *err);

struct kern_db_writer;

/* Creates the file |path|, which must not exist. The file has MIOpen's schema and index and a page
 * size of 4096. It is not in WAL mode, so that it can be read in a read-only directory. The same
 * rows in the same order give the same bytes. */
KILN_MUST_CHECK enum kiln_code kern_db_create(const char *path, struct kern_db_writer **ret_writer,
                                              struct kiln_err *err);
/* Removes the file unless kern_db_writer_finish was called. */
void kern_db_writer_destroy(struct kern_db_writer *writer);
KILN_DEFINE_AUTO(kern_db_writer)
/* Returns KILN_INVALID if the file already has this name with these arguments, if a text contains a
 * NUL or has more than 64 KiB, or if |raw| is empty or too large.  The writer remains usable. */
KILN_MUST_CHECK enum kiln_code kern_db_writer_add(struct kern_db_writer *writer, struct bytes name,
                                                  struct bytes args, struct bytes raw,
                                                  struct kiln_err *err);
/* Adds a kernel piece by piece: kern_packing_begin, kern_packing_continue until |ret_more| is
 * false, then kern_db_writer_put. */
struct kern_packing;
/* The bytes of |name| and |raw| are borrowed until the packing is destroyed. */
KILN_MUST_CHECK enum kiln_code kern_packing_begin(const struct kern_name *name, struct bytes raw,
                                                  struct kern_packing **ret_packing,
                                                  struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kern_packing_continue(struct kern_packing *packing, size_t size,
                                                     bool *ret_more, struct kiln_err *err);
void kern_packing_destroy(struct kern_packing *packing);
KILN_DEFINE_AUTO(kern_packing)
KILN_MUST_CHECK enum kiln_code kern_db_writer_put(struct kern_db_writer *writer,
                                                  struct kern_packing *packing,
                                                  struct kiln_err *err);
/* Commits the file without a sync.  Call it once.  On failure, removes the file. */
KILN_MUST_CHECK enum kiln_code kern_db_writer_finish(struct kern_db_writer *writer,
                                                     struct kiln_err *err);
