/* SPDX-License-Identifier: MIT */
/* Tests readers of a row in MIOpen's kernel database (a .kdb file) and of a .bz2 file. */
#include "tests/fuzz/fuzz.h"

#include "engine/codec/bzip2.h"
#include "engine/digest/md5.h"
#include "engine/miopen/kern_db.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OBJECT_MAX (8u << 20)

static void check_row(struct reader *r)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct kern_row row = { .id = 1, .raw_size = reader_u32(r) };
    row.name = fuzz_part(r);
    row.args = fuzz_part(r);
    row.md5 = fuzz_part(r);
    row.stored = fuzz_rest(r);
    BUFFER_AUTO struct buffer raw;
    buffer_init(&raw, OBJECT_MAX);
    enum kiln_code rc = kern_row_unpack(&row, &raw, &err);
    char md5[MD5_HEX_SIZE];
    md5_hex_of(buffer_view(&raw), md5);
    fuzz_expect(rc != KILN_OK || bytes_equal_text(row.md5, md5), "what is taken has its hash");
    fuzz_expect(rc == KILN_OK || raw.size == 0, "of a damaged row nothing is taken");
}

/* Unpacks |stored| in pieces of 1021 bytes, which do not match any internal buffer. */
static enum kiln_code unpack(struct bytes stored, struct buffer *back, struct kiln_err *err)
{
    char piece[1021];
    size_t got = 0;
    KILN_AUTO(bzip2_reader) struct bzip2_reader *reader = NULL;
    enum kiln_code rc = bzip2_reader_open(stored, &reader, err);
    while (!rc && !bzip2_reader_is_over(reader)) {
        rc = bzip2_read(reader, piece, sizeof(piece), &got, err);
        if (!rc)
            buffer_put(back, piece, got);
    }
    return rc;
}

/* Packs |raw| in two pieces. |packer| owns the bytes of |ret_stored|. */
static bool pack(struct bzip2_packer *packer, struct bytes raw, struct bytes *ret_stored)
{
    struct kiln_err err = KILN_ERR_INIT;
    size_t half = raw.size / 2;
    bool fits = false;
    fuzz_expect(bzip2_packer_put(packer, bytes_of(raw.data, half), &err) == KILN_OK &&
                    bzip2_packer_put(packer, bytes_of(raw.data + half, raw.size - half), &err) ==
                        KILN_OK &&
                    bzip2_packer_finish(packer, ret_stored, &fits, &err) == KILN_OK,
                "what was unpacked can be packed");
    return fits;
}

static void check_stream(struct reader *r)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer raw, again;
    KILN_AUTO(bzip2_packer) struct bzip2_packer *packer = NULL;
    struct bytes packed = { 0 };
    buffer_init(&raw, OBJECT_MAX);
    buffer_init(&again, OBJECT_MAX);
    if (unpack(fuzz_rest(r), &raw, &err) || raw.failed || raw.size == 0)
        return;
    fuzz_expect(bzip2_packer_open(raw.size, &packer, &err) == KILN_OK, "there is memory to pack");
    if (pack(packer, buffer_view(&raw), &packed))
        fuzz_expect(unpack(packed, &again, &err) == KILN_OK &&
                        bytes_equal(buffer_view(&raw), buffer_view(&again)),
                    "to the same");
}

static void check_file(struct reader *r)
{
    struct kiln_err err = KILN_ERR_INIT;
    uint64_t limit = reader_u32(r) % OBJECT_MAX;
    struct stat seen;
    KILN_AUTO(fd) int from = fuzz_memfd(fuzz_rest(r), false);
    KILN_AUTO(fd) int to = fuzz_memfd((struct bytes){ 0 }, false);
    (void)lseek(from, 0, SEEK_SET);
    (void)!bzip2_unpack_file(from, to, limit, NULL, &err);
    fuzz_expect(fstat(to, &seen) == 0 && (uint64_t)seen.st_size <= limit, "no more than the limit");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct reader *) = { check_row, check_stream, check_file };
    struct reader r = reader_of(bytes_of(data, size));
    checks[reader_u8(&r) % 3](&r);
    return 0;
}
