/* SPDX-License-Identifier: MIT */
#include "tests/support/shell.h"
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"
#include "engine/codec/bzip2.h"
#include "engine/digest/sha256.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LIMIT (8u << 20)

struct fixture {
    const char *directory;
    struct buffer raw, stored;
    struct kiln_err err;
};

SET_UP(setup)
{
    test_buffer(&f->raw, LIMIT);
    test_buffer(&f->stored, LIMIT);
    f->directory = test_directory();
}

FIXTURE(bzip2, setup, NULL);

/* Compressible like machine code, but not trivially. */
static void fill(struct buffer *b, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1103515245u + 12345u;
        buffer_put_u8(b, (uint8_t)(i % 7 ? i / 5 : seed >> 16));
    }
}

static void fill_randomly(struct buffer *b, size_t size)
{
    uint32_t x = 2463534242u;
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        buffer_put_u8(b, (uint8_t)(x >> 11));
    }
}

static int open_file(struct fixture *f, const char *name, int flags)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", f->directory, name);
    int fd = open(path, flags | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

static struct buffer content_of(struct fixture *f, const char *name)
{
    struct buffer content;
    buffer_init(&content, LIMIT);
    KILN_AUTO(fd) int fd = open_file(f, name, O_RDONLY);
    must(fs_read_fd(fd, LIMIT, &content, &f->err), f->err);
    return content;
}

static void assert_same(struct bytes a, struct bytes b)
{
    assert_int_equal(a.size, b.size);
    if (a.size)
        assert_memory_equal(a.data, b.data, a.size);
}

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

TEST_F(bzip2, a_file_packed_by_the_bzip2_tool_is_unpacked)
{
    static const size_t sizes[] = { 1, 16384, 16385, 200000, 2000000 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        BUFFER_AUTO struct buffer raw, back;
        buffer_init(&raw, LIMIT);
        buffer_init(&back, LIMIT);
        fill(&raw, sizes[i], (unsigned)i);
        test_write(test_path(f->directory, "content"), buffer_view(&raw));
        shell(f->directory, "bzip2 -9 -k -f content");
        BUFFER_AUTO struct buffer packed = content_of(f, "content.bz2");

        buffer_put(&back, "before", 6);
        must(unpack(buffer_view(&packed), &back, &f->err), f->err);

        assert_memory_equal(back.data, "before", 6);
        assert_same(bytes_of(back.data + 6, back.size - 6), buffer_view(&raw));
    }
}

/* Packs in pieces of |piece| bytes. Returns false if the result is longer than |content|. */
static bool pack_content(struct fixture *f, struct bytes content, size_t piece)
{
    KILN_AUTO(bzip2_packer) struct bzip2_packer *packer = NULL;
    struct bytes stored = { 0 };
    bool fits = false;
    must(bzip2_packer_open(content.size, &packer, &f->err), f->err);
    for (size_t at = 0; at < content.size; at += piece) {
        size_t left = content.size - at;
        must(bzip2_packer_put(packer, bytes_of(content.data + at, left < piece ? left : piece),
                              &f->err),
             f->err);
    }
    must(bzip2_packer_finish(packer, &stored, &fits, &f->err), f->err);
    if (fits)
        buffer_put(&f->stored, stored.data, stored.size);
    return fits;
}

TEST_F(bzip2, a_packed_file_is_unpacked_by_the_bzip2_tool)
{
    fill(&f->raw, 300000, 1);
    assert_true(pack_content(f, buffer_view(&f->raw), f->raw.size));
    assert_memory_equal(f->stored.data, "BZh9", 4);
    test_write(test_path(f->directory, "packed.bz2"), buffer_view(&f->stored));
    shell(f->directory, "bzip2 -d packed.bz2");
    BUFFER_AUTO struct buffer back = content_of(f, "packed");
    assert_same(buffer_view(&back), buffer_view(&f->raw));
}

TEST_F(bzip2, incompressible_content_does_not_fit)
{
    fill_randomly(&f->raw, 5000);
    const struct bytes hard[] = { buffer_view(&f->raw), bytes_of_text("abc"), bytes_of("", 0) };
    for (size_t i = 0; i < sizeof(hard) / sizeof(hard[0]); i++) {
        assert_false(pack_content(f, hard[i], LIMIT));
        assert_false(pack_content(f, hard[i], 1));
    }
}

/* MIOpen packs a kernel in one piece. kiln packs it in pieces, and must get the same bytes. */
TEST_F(bzip2, content_packed_in_pieces_gives_the_same_stream)
{
    static const size_t pieces[] = { 1021, 256u << 10, 900000, 2000000 };
    fill(&f->raw, 2000001, 5);
    assert_true(pack_content(f, buffer_view(&f->raw), f->raw.size));
    size_t size = f->stored.size;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        assert_true(pack_content(f, buffer_view(&f->raw), pieces[i]));
        assert_same(bytes_of(f->stored.data + size, f->stored.size - size),
                    bytes_of(f->stored.data, size));
        f->stored.size = size;
    }
}

static void pack(struct fixture *f, size_t size)
{
    fill(&f->raw, size, 3);
    assert_true(pack_content(f, buffer_view(&f->raw), size));
}

/* The caller can look at the clock only between two reads, so each read must be short. */
TEST_F(bzip2, one_read_takes_at_most_64_kib_of_the_stream)
{
    static char piece[LIMIT];
    size_t got = 1, reads = 0;
    fill(&f->raw, 2000000, 7);
    fill_randomly(&f->raw, 300000);
    assert_true(pack_content(f, buffer_view(&f->raw), f->raw.size));
    KILN_AUTO(bzip2_reader) struct bzip2_reader *reader = NULL;
    must(bzip2_reader_open(buffer_view(&f->stored), &reader, &f->err), f->err);
    for (; !bzip2_reader_is_over(reader); reads++)
        must(bzip2_read(reader, piece, sizeof(piece), &got, &f->err), f->err);
    assert_true(reads >= f->stored.size / (64u << 10));
}

TEST_F(bzip2, a_truncated_or_extended_bzip2_stream_is_refused)
{
    pack(f, 40000);
    BUFFER_AUTO struct buffer back;
    buffer_init(&back, LIMIT);
    for (size_t size = 0; size < f->stored.size; size += 97)
        assert_int_equal(unpack(bytes_of(f->stored.data, size), &back, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "too early");
    buffer_put_u8(&f->stored, 0);
    assert_int_equal(unpack(buffer_view(&f->stored), &back, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, "follow");
}

TEST_F(bzip2, a_flipped_bit_is_never_other_content)
{
    pack(f, 3000);
    for (size_t bit = 0; bit < 8 * f->stored.size; bit += 5) {
        BUFFER_AUTO struct buffer back;
        buffer_init(&back, LIMIT);
        f->stored.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        enum kiln_code rc = unpack(buffer_view(&f->stored), &back, &f->err);
        f->stored.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        /* some bits do not change the content, such as those of the padding and of the block
         * size */
        if (rc == KILN_OK)
            assert_same(buffer_view(&back), buffer_view(&f->raw));
        else
            assert_int_equal(rc, KILN_CORRUPT);
    }
}

struct reported {
    unsigned calls;
    uint64_t latest;
};

static void on_progress(void *context, uint64_t read)
{
    struct reported *reported = context;
    assert_true(read > reported->latest);
    reported->calls++;
    reported->latest = read;
}

static enum kiln_code unpack_file(struct fixture *f, const char *name, uint64_t limit,
                                  struct reported *reported)
{
    KILN_AUTO(fd) int from = open_file(f, name, O_RDONLY);
    KILN_AUTO(fd) int to = open_file(f, "unpacked", O_WRONLY | O_CREAT | O_TRUNC);
    const struct bzip2_progress progress = { on_progress, reported };
    return bzip2_unpack_file(from, to, limit, reported ? &progress : NULL, &f->err);
}

TEST_F(bzip2, a_bzip2_file_with_several_streams_is_unpacked)
{
    fill(&f->raw, 3000000, 9);
    test_write(test_path(f->directory, "a"), buffer_view(&f->raw));
    test_write(test_path(f->directory, "b"), bytes_of_text("the second stream"));
    shell(f->directory, "cat a b > ab; bzip2 -9 -k a b; cat a.bz2 b.bz2 > ab.bz2");
    struct reported reported = { 0 };

    must(unpack_file(f, "ab.bz2", LIMIT, &reported), f->err);

    shell(f->directory, "cmp ab unpacked");
    BUFFER_AUTO struct buffer packed = content_of(f, "ab.bz2");
    assert_true(reported.calls >= 1);
    assert_int_equal(reported.latest, packed.size);
}

TEST_F(bzip2, the_content_of_a_bzip2_file_is_hashed_from_its_first_byte)
{
    struct digest sha256;
    uint64_t size = 0;
    fill(&f->raw, 700000, 3);
    test_write(test_path(f->directory, "a"), buffer_view(&f->raw));
    shell(f->directory, "bzip2 -k a");
    KILN_AUTO(fd) int plain = open_file(f, "a", O_RDONLY);
    KILN_AUTO(fd) int packed = open_file(f, "a.bz2", O_RDONLY);
    assert_int_equal(lseek(packed, 0, SEEK_END) > 0, 1);

    must(bzip2_digest_file(packed, &sha256, &size, &f->err), f->err);

    const struct digest expected = sha256_of(buffer_view(&f->raw));
    assert_true(digest_equal(&sha256, &expected));
    assert_int_equal(size, f->raw.size);
    assert_true(bzip2_is_packed(packed));
    assert_false(bzip2_is_packed(plain));
    assert_int_equal(bzip2_digest_file(plain, &sha256, &size, &f->err), KILN_CORRUPT);
}

TEST_F(bzip2, a_bzip2_file_read_byte_by_byte_is_unpacked)
{
    fill(&f->raw, 5000, 2);
    test_write(test_path(f->directory, "a"), buffer_view(&f->raw));
    shell(f->directory, "bzip2 -k a && cat a.bz2 a.bz2 > aa.bz2 && mkfifo slow");
    shell(f->directory, "(dd if=aa.bz2 of=slow bs=1 >/dev/null 2>&1 &)");

    must(unpack_file(f, "slow", LIMIT, NULL), f->err);

    shell(f->directory, "cat a a | cmp - unpacked");
}

TEST_F(bzip2, a_file_may_not_grow_beyond_the_limit)
{
    shell(f->directory, "head -c 4000000 /dev/zero | bzip2 > zeros.bz2");
    assert_int_equal(unpack_file(f, "zeros.bz2", 3999999, NULL), KILN_FULL);
    assert_says(f->err.text, "3999999");
    must(unpack_file(f, "zeros.bz2", 4000000, NULL), f->err);
}

TEST_F(bzip2, a_damaged_bzip2_file_is_refused)
{
    shell(f->directory,
          "head -c 300000 /dev/zero | bzip2 > whole.bz2; head -c 30 whole.bz2 > cut.bz2;"
          "(cat whole.bz2; echo more) > more.bz2; : > empty.bz2; echo plain > plain.bz2");
    static const struct {
        const char *name, *says;
    } bad[] = { { "cut.bz2", "too early" },
                { "more.bz2", "damaged" },
                { "empty.bz2", "is empty" },
                { "plain.bz2", "damaged" } };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(unpack_file(f, bad[i].name, LIMIT, NULL), KILN_CORRUPT);
        assert_says(f->err.text, bad[i].says);
    }
}

TEST_F(bzip2, an_unusable_descriptor_is_reported)
{
    shell(f->directory, "echo content | bzip2 > a.bz2");
    KILN_AUTO(fd) int from = open_file(f, "a.bz2", O_RDONLY);
    KILN_AUTO(fd) int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(bzip2_unpack_file(directory, from, LIMIT, NULL, &f->err), KILN_IO);
    assert_says(f->err.text, "cannot read");
    assert_int_equal(bzip2_unpack_file(from, directory, LIMIT, NULL, &f->err), KILN_IO);
    assert_says(f->err.text, "cannot write");
}
