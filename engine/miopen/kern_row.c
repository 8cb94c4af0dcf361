/* SPDX-License-Identifier: MIT */
#include "common/protocol/limits.h"
#include "engine/codec/bzip2.h"
#include "engine/digest/md5.h"
#include "engine/miopen/kern_db.h"

#include <string.h>

#define PIECE (16u << 10)

static enum kiln_code check_sizes(const struct kern_row *row, struct kiln_err *err)
{
    if (row->name.size > LIMIT_NAMED_TEXT || row->args.size > LIMIT_NAMED_TEXT ||
        row->md5.size > LIMIT_NAMED_TEXT)
        return kiln_fail(err, KILN_CORRUPT, "a text has more than %u bytes", LIMIT_NAMED_TEXT);
    if (row->name.size == 0)
        return kiln_fail(err, KILN_CORRUPT, "the kernel has no name");
    if (row->raw_size > LIMIT_CODE_OBJECT || row->stored.size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_CORRUPT, "the object has more than %u bytes", LIMIT_CODE_OBJECT);
    if (row->stored.size == 0)
        return kiln_fail(err, KILN_CORRUPT, "the object is empty");
    return KILN_OK;
}

static enum kiln_code name_row(const struct kern_row *row, struct kiln_err *err)
{
    return kiln_while(err, "row %llu ('%.*s')", (unsigned long long)row->id,
                      row->name.size > 120 ? 120 : (int)row->name.size,
                      (const char *)row->name.data);
}

enum kiln_code kern_row_check(const struct kern_row *row, struct kiln_err *err)
{
    return check_sizes(row, err) ? name_row(row, err) : KILN_OK;
}

struct kern_unpacking {
    struct kern_row row;
    struct bzip2_reader *reader; /* NULL if the blob is not compressed */
    struct md5 md5;
    uint64_t raw_size, done;
};

enum kiln_code kern_unpacking_begin(const struct kern_row *row,
                                    struct kern_unpacking **ret_unpacking, struct kiln_err *err)
{
    if (kern_row_check(row, err))
        return err->code;
    KILN_AUTO(kern_unpacking) struct kern_unpacking *u = calloc(1, sizeof(*u));
    if (!u)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to unpack an object");
    u->row = *row;
    u->raw_size = row->raw_size ? row->raw_size : row->stored.size;
    md5_init(&u->md5);
    if (row->raw_size && bzip2_reader_open(row->stored, &u->reader, err))
        return name_row(row, err);
    *ret_unpacking = KILN_TAKE(u);
    return KILN_OK;
}

static enum kiln_code read_piece(struct kern_unpacking *u, void *into, size_t size, size_t *ret_got,
                                 struct kiln_err *err)
{
    if (u->reader)
        return bzip2_read(u->reader, into, size, ret_got, err);
    uint64_t left = u->raw_size - u->done;
    *ret_got = left < size ? (size_t)left : size;
    memcpy(into, u->row.stored.data + u->done, *ret_got);
    return KILN_OK;
}

static enum kiln_code check_object(struct kern_unpacking *u, struct kiln_err *err)
{
    char md5[MD5_HEX_SIZE];
    if (u->done < u->raw_size)
        return kiln_fail(err, KILN_CORRUPT, "it unpacks to %llu bytes instead of %llu",
                         (unsigned long long)u->done, (unsigned long long)u->raw_size);
    md5_end(&u->md5, md5);
    if (bytes_equal_text(u->row.md5, md5))
        return KILN_OK;
    return kiln_fail(err, KILN_CORRUPT, "the object's md5 is %s, not '%.*s'", md5,
                     u->row.md5.size > 40 ? 40 : (int)u->row.md5.size,
                     (const char *)u->row.md5.data);
}

enum kiln_code kern_unpacking_read(struct kern_unpacking *u, void *into, size_t size,
                                   size_t *ret_got, struct kiln_err *err)
{
    size_t got = 0;
    enum kiln_code rc = read_piece(u, into, size, &got, err);
    if (!rc && got > u->raw_size - u->done)
        rc = kiln_fail(err, KILN_CORRUPT, "it unpacks to more than the %llu bytes stated",
                       (unsigned long long)u->raw_size);
    if (rc)
        return name_row(&u->row, err);
    md5_put(&u->md5, bytes_of(into, got));
    u->done += got;
    *ret_got = got;
    return kern_unpacking_is_over(u) && check_object(u, err) ? name_row(&u->row, err) : KILN_OK;
}

bool kern_unpacking_is_over(const struct kern_unpacking *u)
{
    return u->reader ? bzip2_reader_is_over(u->reader) : u->done == u->raw_size;
}

void kern_unpacking_destroy(struct kern_unpacking *unpacking)
{
    if (!unpacking)
        return;
    bzip2_reader_destroy(unpacking->reader);
    free(unpacking);
}

enum kiln_code kern_row_unpack(const struct kern_row *row, struct buffer *ret_raw,
                               struct kiln_err *err)
{
    char piece[PIECE];
    size_t before = ret_raw->size, got = 0;
    KILN_AUTO(kern_unpacking) struct kern_unpacking *u = NULL;
    enum kiln_code rc = kern_unpacking_begin(row, &u, err);
    while (!rc && !kern_unpacking_is_over(u)) {
        rc = kern_unpacking_read(u, piece, sizeof(piece), &got, err);
        if (!rc)
            buffer_put(ret_raw, piece, got);
    }
    if (!rc && ret_raw->failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "cannot hold %llu unpacked bytes",
                       (unsigned long long)u->raw_size);
    if (rc)
        ret_raw->size = before;
    return rc;
}
