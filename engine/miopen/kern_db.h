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
 * unpacks to exactly uncompressed_size bytes, and if the MD5 of these bytes is kernel_hash. An
 * uncompressed_size of 0 means that the blob is not compressed. Every other row is damaged: it
 * counts as a miss, so that nobody gets another kernel's object.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct kern_db;

/* Opens a file for reading. Nobody may change it while it is open: locks and a write-ahead log are
 * ignored. Returns KILN_CORRUPT if the file is damaged or of another kind, or lacks the table or a
 * column; the message says which. */
KILN_MUST_CHECK enum kiln_code kern_db_open(const char *path, struct kern_db **ret_db,
                                            struct kiln_err *err);
/* Opens an image in memory, which must stay valid until kern_db is closed. |name| is for
 * messages. */
KILN_MUST_CHECK enum kiln_code kern_db_open_image(struct bytes image, const char *name,
                                                  struct kern_db **ret_db, struct kiln_err *err);
void kern_db_destroy(struct kern_db *db);
KILN_DEFINE_AUTO(kern_db)

struct kern_name { /* the search key of a kernel; compared byte for byte */
    struct bytes name, args;
};

struct kern_row {
    uint64_t id;
    struct bytes name; /* such as "conv3x3.s.o"; any bytes except NUL */
    struct bytes args;
    struct bytes stored; /* the blob, as stored */
    struct bytes md5;    /* kernel_hash as stored */
    uint64_t raw_size;   /* uncompressed_size; 0 if the blob is not compressed */
};

/* Appends the unpacked object of the kernel |name|. Returns KILN_NOT_FOUND without a message if
 * there is no such row. If the row fails its check, sets |ret_damaged| and returns KILN_NOT_FOUND
 * with a message. */
KILN_MUST_CHECK enum kiln_code kern_db_find(struct kern_db *db, const struct kern_name *name,
                                            struct buffer *ret_raw, bool *ret_damaged,
                                            struct kiln_err *err);
/* Returns KILN_CORRUPT if the row is empty, or larger than any genuine row. */
KILN_MUST_CHECK enum kiln_code kern_row_check(const struct kern_row *row, struct kiln_err *err);
/* Checks one row as kern_db_find does, and appends its unpacked object. Returns KILN_CORRUPT if the
 * row is damaged. */
KILN_MUST_CHECK enum kiln_code kern_row_unpack(const struct kern_row *row, struct buffer *ret_raw,
                                               struct kiln_err *err);
/* Like kern_row_unpack, but piece by piece, for callers that must not block for long. */
struct kern_unpacking;
/* Begins to unpack a row. Until the unpacking is destroyed, the caller must keep the bytes that
 * |row|'s members point to, but not |row| itself. */
KILN_MUST_CHECK enum kiln_code kern_unpacking_begin(const struct kern_row *row,
                                                    struct kern_unpacking **ret_unpacking,
                                                    struct kiln_err *err);
/* Unpacks the next bytes of the object into |into|. One call stores at most |size| bytes and reads
 * at most 64 KiB of the blob. So even before the object's end, |ret_got| may be less than |size|,
 * and may be 0. */
KILN_MUST_CHECK enum kiln_code kern_unpacking_read(struct kern_unpacking *unpacking, void *into,
                                                   size_t size, size_t *ret_got,
                                                   struct kiln_err *err);
/* Returns whether the object was unpacked to its end and is correct. */
bool kern_unpacking_is_over(const struct kern_unpacking *unpacking);
void kern_unpacking_destroy(struct kern_unpacking *unpacking);
KILN_DEFINE_AUTO(kern_unpacking)
struct kern_listing { /* which rows to list, and the callback for each of them */
    uint64_t after;   /* only rows with a higher id */
    uint64_t count;   /* lists at most this many */
    bool (*each)(void *context, const struct kern_row *row); /* returns false to stop */
    void *context;
};
/* Lists the rows in the order of their ids. Does not unpack or check them. Returns KILN_CORRUPT if
 * the file is damaged, so that the rows after the listed ones cannot be read. */
KILN_MUST_CHECK enum kiln_code kern_db_each(struct kern_db *db, const struct kern_listing *listing,
                                            struct kiln_err *err);
/* Checks the pages, and that table and index have the same rows; does not unpack the rows' objects.
 * Returns KILN_CORRUPT with a message about the first damage. Reads the whole file in one call. */
KILN_MUST_CHECK enum kiln_code kern_db_check(struct kern_db *db, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code kern_db_count(struct kern_db *db, uint64_t *ret_rows,
                                             struct kiln_err *err);

/* ---- writing ---- */

struct kern_db_writer;

/* Creates a file at |path|, which must not exist, with MIOpen's schema and index and a page size of
 * 4096. It is not in WAL mode, so that it can be read in a read-only directory. The same rows in
 * the same order give the same bytes. */
KILN_MUST_CHECK enum kiln_code kern_db_create(const char *path, struct kern_db_writer **ret_writer,
                                              struct kiln_err *err);
/* Frees the writer. Removes the file unless kern_db_writer_finish was called. */
void kern_db_writer_destroy(struct kern_db_writer *writer);
KILN_DEFINE_AUTO(kern_db_writer)
/* Packs an object and adds it. Returns KILN_INVALID if the file already has this name with these
 * arguments, if a text contains a NUL or has more than 64 KiB, or if |raw| is empty or too large.
 * The writer remains usable after such an error. */
KILN_MUST_CHECK enum kiln_code kern_db_writer_add(struct kern_db_writer *writer, struct bytes name,
                                                  struct bytes args, struct bytes raw,
                                                  struct kiln_err *err);
/* Like kern_db_writer_add, but piece by piece, for callers that must not block for long. Call
 * kern_packing_begin, then kern_packing_continue until |ret_more| is false, then
 * kern_db_writer_put. */
struct kern_packing;
/* Begins to pack an object. The caller must keep what |name| and |raw| point to until it destroys
 * the packing. */
KILN_MUST_CHECK enum kiln_code kern_packing_begin(const struct kern_name *name, struct bytes raw,
                                                  struct kern_packing **ret_packing,
                                                  struct kiln_err *err);
/* Packs the next |size| bytes of the object. */
KILN_MUST_CHECK enum kiln_code kern_packing_continue(struct kern_packing *packing, size_t size,
                                                     bool *ret_more, struct kiln_err *err);
void kern_packing_destroy(struct kern_packing *packing);
KILN_DEFINE_AUTO(kern_packing)
/* Adds the packed kernel; call it once. */
KILN_MUST_CHECK enum kiln_code kern_db_writer_put(struct kern_db_writer *writer,
                                                  struct kern_packing *packing,
                                                  struct kiln_err *err);
/* Commits the file but does not sync it to the disk. Call this function once. On failure, it
 * removes the file. */
KILN_MUST_CHECK enum kiln_code kern_db_writer_finish(struct kern_db_writer *writer,
                                                     struct kiln_err *err);
