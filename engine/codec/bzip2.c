/* SPDX-License-Identifier: MIT */
#include "engine/codec/bzip2.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"

#include <errno.h>
#include <string.h>

#include <bzlib.h>

/* The parameters that MIOpen uses, so that kiln packs an input to the same stream as MIOpen. */
#define BLOCK_SIZE 9
#define WORK_FACTOR 30
#define READ_MAX (64u << 10)
#define FILE_CHUNK (256u << 10)

static enum kiln_code fail_unpacking(int rc, struct kiln_err *err)
{
    if (rc == BZ_MEM_ERROR)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot unpack bzip2: out of memory");
    return kiln_fail(err, KILN_CORRUPT, "the content is damaged or not a bzip2 stream");
}

struct bzip2_reader {
    bz_stream stream;
    size_t left;
    bool is_over;
};

enum kiln_code bzip2_reader_open(struct bytes stored, struct bzip2_reader **ret_reader,
                                 struct kiln_err *err)
{
    if (stored.size > UINT32_MAX)
        return kiln_fail(err, KILN_CORRUPT, "the bzip2 stream is longer than 4 GiB");
    struct bzip2_reader *r = calloc(1, sizeof(*r));
    int rc = BZ_MEM_ERROR;
    if (r) {
        r->stream.next_in = (char *)stored.data;
        r->left = stored.size;
        rc = BZ2_bzDecompressInit(&r->stream, 0, 0);
    }
    if (rc != BZ_OK) {
        free(r);
        return fail_unpacking(rc, err);
    }
    *ret_reader = r;
    return KILN_OK;
}

static enum kiln_code end_reading(struct bzip2_reader *r, struct kiln_err *err)
{
    size_t rest = r->stream.avail_in + r->left;
    r->is_over = true;
    return rest == 0 ? KILN_OK
                     : kiln_fail(err, KILN_CORRUPT, "%zu bytes follow the bzip2 stream", rest);
}

/* Gives libbz2 at most READ_MAX bytes of the stream for one call. A crafted stream may yield only
 * one byte for several kilobytes, so one call must not read the whole stream. */
static void feed_reader(struct bzip2_reader *r)
{
    size_t size = r->left < READ_MAX ? r->left : READ_MAX;
    if (r->stream.avail_in > 0)
        return;
    r->stream.avail_in = (unsigned)size;
    r->left -= size;
}

enum kiln_code bzip2_read(struct bzip2_reader *r, void *into, size_t size, size_t *ret_got,
                          struct kiln_err *err)
{
    enum kiln_code code = KILN_OK;
    r->stream.next_out = into;
    r->stream.avail_out = (unsigned)size;
    feed_reader(r);
    int rc = r->is_over ? BZ_OK : BZ2_bzDecompress(&r->stream);
    if (rc == BZ_STREAM_END)
        code = end_reading(r, err);
    else if (rc != BZ_OK)
        code = fail_unpacking(rc, err);
    else if (!r->is_over && r->left == 0 && r->stream.avail_in == 0 && r->stream.avail_out > 0)
        code = kiln_fail(err, KILN_CORRUPT, "the bzip2 stream ends too early");
    *ret_got = size - r->stream.avail_out;
    return code;
}

bool bzip2_reader_is_over(const struct bzip2_reader *reader) { return reader->is_over; }

void bzip2_reader_destroy(struct bzip2_reader *reader)
{
    if (!reader)
        return;
    BZ2_bzDecompressEnd(&reader->stream);
    free(reader);
}

struct bzip2_packer {
    bz_stream stream;
    char *stored; /* owned; NULL if the content is empty */
    bool fits;
};

static enum kiln_code fail_packing(int rc, struct kiln_err *err)
{
    if (rc == BZ_MEM_ERROR)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot pack with bzip2: out of memory");
    return kiln_fail(err, KILN_IO, "cannot pack with bzip2: libbz2 returned %d", rc);
}

enum kiln_code bzip2_packer_open(size_t size, struct bzip2_packer **ret_packer,
                                 struct kiln_err *err)
{
    if (size > UINT32_MAX)
        return kiln_fail(err, KILN_INVALID, "cannot pack %zu bytes: too many for bzip2", size);
    KILN_AUTO(bzip2_packer) struct bzip2_packer *p = calloc(1, sizeof(*p));
    if (!p)
        return fail_packing(BZ_MEM_ERROR, err);
    p->fits = size > 0;
    if (p->fits) {
        char *stored = malloc(size);
        int rc = stored ? BZ2_bzCompressInit(&p->stream, BLOCK_SIZE, 0, WORK_FACTOR) : BZ_MEM_ERROR;
        if (rc != BZ_OK) {
            free(stored);
            return fail_packing(rc, err);
        }
        p->stored = p->stream.next_out = stored;
        p->stream.avail_out = (unsigned)size;
    }
    *ret_packer = KILN_TAKE(p);
    return KILN_OK;
}

static bool has_space(struct bzip2_packer *p)
{
    p->fits = p->fits && p->stream.avail_out > 0;
    return p->fits;
}

enum kiln_code bzip2_packer_put(struct bzip2_packer *p, struct bytes piece, struct kiln_err *err)
{
    p->stream.next_in = (char *)piece.data;
    p->stream.avail_in = (unsigned)piece.size;
    while (p->stream.avail_in > 0 && has_space(p)) {
        int rc = BZ2_bzCompress(&p->stream, BZ_RUN);
        if (rc != BZ_RUN_OK)
            return fail_packing(rc, err);
    }
    return KILN_OK;
}

enum kiln_code bzip2_packer_finish(struct bzip2_packer *p, struct bytes *ret_stored, bool *ret_fits,
                                   struct kiln_err *err)
{
    int rc = has_space(p) ? BZ2_bzCompress(&p->stream, BZ_FINISH) : BZ_FINISH_OK;
    if (rc != BZ_STREAM_END && rc != BZ_FINISH_OK)
        return fail_packing(rc, err);
    *ret_fits = rc == BZ_STREAM_END;
    if (*ret_fits)
        *ret_stored = bytes_of(p->stored, (size_t)(p->stream.next_out - p->stored));
    return KILN_OK;
}

void bzip2_packer_destroy(struct bzip2_packer *packer)
{
    if (!packer)
        return;
    if (packer->stored)
        BZ2_bzCompressEnd(&packer->stream);
    free(packer->stored);
    free(packer);
}

struct unpacking {
    bz_stream stream;
    bool open;
    uint64_t read, put;
    uint64_t limit;
    int to_fd;
    struct sha256 *sha256;
    char *in, *out;
};

static void unpacking_done(struct unpacking *u)
{
    if (u->open)
        BZ2_bzDecompressEnd(&u->stream);
    free(u->in);
    free(u->out);
}

static enum kiln_code read_chunk(int fd, char *into, size_t *ret_size, struct kiln_err *err)
{
    ssize_t got = 0;
    do
        got = read(fd, into, FILE_CHUNK);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot read the compressed file");
    *ret_size = (size_t)got;
    return KILN_OK;
}

static enum kiln_code begin_stream(struct unpacking *u, struct kiln_err *err)
{
    bz_stream next = { .next_in = u->stream.next_in, .avail_in = u->stream.avail_in };
    u->stream = next;
    int rc = BZ2_bzDecompressInit(&u->stream, 0, 0);
    if (rc != BZ_OK)
        return fail_unpacking(rc, err);
    u->open = true;
    return KILN_OK;
}

static void end_stream(struct unpacking *u)
{
    BZ2_bzDecompressEnd(&u->stream);
    u->open = false;
}

static enum kiln_code put_output(struct unpacking *u, size_t size, struct kiln_err *err)
{
    if (!u->sha256)
        return fs_write_all(u->to_fd, bytes_of(u->out, size), err);
    sha256_put(u->sha256, bytes_of(u->out, size));
    return KILN_OK;
}

static enum kiln_code unpack_chunk(struct unpacking *u, struct kiln_err *err)
{
    u->stream.next_out = u->out;
    u->stream.avail_out = FILE_CHUNK;
    int rc = BZ2_bzDecompress(&u->stream);
    if (rc != BZ_OK && rc != BZ_STREAM_END)
        return fail_unpacking(rc, err);
    size_t got = FILE_CHUNK - u->stream.avail_out;
    if (got > u->limit - u->put)
        return kiln_fail(err, KILN_FULL, "it unpacks to more than the %llu bytes allowed",
                         (unsigned long long)u->limit);
    u->put += got;
    if (rc == BZ_STREAM_END)
        end_stream(u);
    return put_output(u, got, err);
}

static enum kiln_code unpack_input(struct unpacking *u, size_t size, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    u->stream.next_in = u->in;
    u->stream.avail_in = (unsigned)size;
    while (!rc && (u->stream.avail_in > 0 || (u->open && u->stream.avail_out == 0))) {
        if (!u->open)
            rc = begin_stream(u, err);
        if (!rc)
            rc = unpack_chunk(u, err);
    }
    return rc;
}

static enum kiln_code unpack_whole(struct unpacking *u, int from_fd,
                                   const struct bzip2_progress *progress, struct kiln_err *err)
{
    u->in = malloc(FILE_CHUNK);
    u->out = malloc(FILE_CHUNK);
    if (!u->in || !u->out)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot unpack bzip2: out of memory");
    enum kiln_code rc = KILN_OK;
    size_t size = 1;
    while (!rc && size > 0) {
        rc = read_chunk(from_fd, u->in, &size, err);
        if (!rc)
            rc = unpack_input(u, size, err);
        u->read += rc ? 0 : size;
        if (!rc && size > 0 && progress)
            progress->report(progress->context, u->read);
    }
    if (!rc && u->read == 0)
        return kiln_fail(err, KILN_CORRUPT, "the compressed file is empty");
    if (!rc && u->open)
        return kiln_fail(err, KILN_CORRUPT, "the compressed file ends too early");
    return rc;
}

enum kiln_code bzip2_unpack_file(int from_fd, int to_fd, uint64_t limit,
                                 const struct bzip2_progress *progress, struct kiln_err *err)
{
    __attribute__((cleanup(unpacking_done))) struct unpacking u = { .limit = limit,
                                                                    .to_fd = to_fd };
    return unpack_whole(&u, from_fd, progress, err);
}

bool bzip2_is_packed(int fd)
{
    uint8_t head[10];
    static const uint8_t block[] = { 0x31, 0x41, 0x59, 0x26, 0x53, 0x59 };
    return fs_read_at(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           memcmp(head, "BZh", 3) == 0 && memcmp(head + 4, block, sizeof(block)) == 0;
}

enum kiln_code bzip2_digest_file(int fd, struct digest *ret_sha256, uint64_t *ret_size,
                                 struct kiln_err *err)
{
    struct sha256 sha256;
    sha256_init(&sha256);
    __attribute__((cleanup(unpacking_done))) struct unpacking u = { .limit = UINT64_MAX,
                                                                    .sha256 = &sha256 };
    if (lseek(fd, 0, SEEK_SET) < 0)
        return kiln_fail_errno(err, errno, "cannot read the compressed file");
    enum kiln_code rc = unpack_whole(&u, fd, /* progress= */ NULL, err);
    if (rc)
        return rc;
    *ret_sha256 = sha256_end(&sha256);
    *ret_size = u.put;
    return KILN_OK;
}
