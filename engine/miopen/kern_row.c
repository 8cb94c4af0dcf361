/* SPDX-License-Identifier: MIT */
#include "common/limits.h"
#include "engine/digest/md5.h"
#include "engine/miopen/bzip2.h"
#include "engine/miopen/kern_db_parts.h"

bool kern_row_is_sane(const struct kern_row *row)
{
    return row->name.size <= KERN_DB_TEXT_MAX && row->args.size <= KERN_DB_TEXT_MAX &&
           row->md5.size <= KERN_DB_TEXT_MAX;
}

static enum kiln_code check_sizes(const struct kern_row *row, struct kiln_err *err)
{
    if (!kern_row_is_sane(row))
        return kiln_fail(err, KILN_CORRUPT, "a text has more than %u bytes", KERN_DB_TEXT_MAX);
    if (row->raw_size > LIMIT_CODE_OBJECT || row->stored.size > LIMIT_CODE_OBJECT)
        return kiln_fail(err, KILN_CORRUPT, "the object has more than %u bytes", LIMIT_CODE_OBJECT);
    if (row->stored.size == 0)
        return kiln_fail(err, KILN_CORRUPT, "the object is empty");
    return KILN_OK;
}

static enum kiln_code unpack_object(const struct kern_row *row, struct buffer *raw,
                                    struct kiln_err *err)
{
    if (row->raw_size)
        return bzip2_unpack(row->stored, row->raw_size, raw, err);
    size_t before = raw->size;
    buffer_put(raw, row->stored.data, row->stored.size);
    if (!raw->failed)
        return KILN_OK;
    raw->size = before;
    return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu bytes", row->stored.size);
}

enum kiln_code kern_row_unpack(const struct kern_row *row, struct buffer *ret_raw,
                               struct kiln_err *err)
{
    size_t before = ret_raw->size;
    char md5[MD5_HEX_SIZE];
    enum kiln_code rc = check_sizes(row, err);
    if (!rc)
        rc = unpack_object(row, ret_raw, err);
    if (!rc) {
        md5_hex_of(bytes_of(ret_raw->data + before, ret_raw->size - before), md5);
        if (!bytes_equal_text(row->md5, md5)) {
            ret_raw->size = before;
            rc = kiln_fail(err, KILN_CORRUPT, "the object's md5 is %s, not '%.*s'", md5,
                           row->md5.size > 40 ? 40 : (int)row->md5.size,
                           (const char *)row->md5.data);
        }
    }
    return rc ? kiln_while(err, "row %llu ('%.*s')", (unsigned long long)row->id,
                           row->name.size > 120 ? 120 : (int)row->name.size,
                           (const char *)row->name.data)
              : KILN_OK;
}
