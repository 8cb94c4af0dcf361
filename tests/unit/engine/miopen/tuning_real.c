/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_data.h"

#include "common/base/fs.h"
#include "engine/codec/bzip2.h"
#include "engine/miopen/tuning_file.h"
#include "tests/support/whole_tuning_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1ull << 30)

/* Counted independently: lines and entries by a script, rows by sqlite3(1). */
static const struct {
    const char *name;
    size_t records, entries;
} texts[] = {
    { "gfx900_56.HIP.fdb.txt", 64583, 179151 },   { "gfx900_56.OpenCL.fdb.txt", 1711, 4608 },
    { "gfx906_60.HIP.fdb.txt", 120454, 244451 },  { "gfx90a68.HIP.fdb.txt", 193590, 648924 },
    { "gfx942130.HIP.fdb.txt", 9600, 37792 },
}, databases[] = {
    { "gfx900_56.db", 41922, 85572 },
    { "gfx906_60.db", 99522, 148096 },
    { "gfx942130.db", 9393, 21058 },
    { "userdb-gfx906_60/gfx906_60_1.1.0.udb", 216, 672 },
};

struct fixture {
    const char *directory;
    char path[100], copy[100];
    size_t records, entries, bad;
    struct buffer again; /* the text, built from the records */
    uint64_t bad_lines;  /* sum of the line numbers */
    uint64_t hash;
    struct perf_db_writer *writer; /* owned */
    struct kiln_err err;
};

SET_UP(setup)
{
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/file", f->directory);
    snprintf(f->copy, sizeof(f->copy), "%s/copy", f->directory);
}

TEAR_DOWN(teardown)
{
    perf_db_writer_destroy(f->writer);
    buffer_done(&f->again);
}

FIXTURE(tuning_real, setup, teardown);

static bool on_record(void *context, const struct tuning_record *r)
{
    struct fixture *f = context;
    f->records++;
    f->entries += r->entry_count;
    buffer_put(&f->again, r->raw.data, r->raw.size);
    if (r->raw.size)
        buffer_put_u8(&f->again, '\n');
    f->hash = bytes_hash(r->key, f->hash * 3 + r->line);
    f->hash = bytes_hash(r->value, f->hash);
    f->hash = bytes_hash(bytes_of(r->ids, r->id_count * sizeof(*r->ids)), f->hash);
    if (f->writer)
        must(perf_db_writer_add(f->writer, r, &f->err), f->err);
    return true;
}

static bool on_bad(void *context, uint64_t line, const char *why)
{
    struct fixture *f = context;
    print_error("%llu: %s\n", (unsigned long long)line, why);
    f->bad++;
    return true;
}

static bool on_bad_quietly(void *context, uint64_t line, const char *why)
{
    struct fixture *f = context;
    assert_true(why[0] != '\0');
    f->bad_lines += line;
    f->bad++;
    return true;
}

static void start(struct fixture *f)
{
    buffer_done(&f->again);
    buffer_init(&f->again, FILE_MAX);
    f->records = f->entries = f->bad = f->bad_lines = f->hash = 0;
}

TEST_F(tuning_real, every_line_of_genuine_texts_is_read_and_comes_back_byte_by_byte)
{
    struct tuning_reader_events events = { on_record, on_bad, NULL, f };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        BUFFER_AUTO struct buffer text;
        buffer_init(&text, FILE_MAX);
        test_data_copy(texts[i].name, f->path);
        start(f);
        must(fs_read_file(f->path, FILE_MAX, &text, &f->err), f->err);

        must(tuning_text_read(TUNING_FIND, buffer_view(&text), &events, &f->err), f->err);

        assert_int_equal(f->records, texts[i].records);
        assert_int_equal(f->entries, texts[i].entries);
        assert_int_equal(f->bad, 0);
        assert_true(bytes_equal(buffer_view(&f->again), buffer_view(&text)));
    }
}

TEST_F(tuning_real, each_of_1000_damaged_lines_is_reported_and_no_other_is_lost)
{
    struct tuning_reader_events events = { on_record, on_bad_quietly, NULL, f };
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FILE_MAX);
    test_data_copy("gfx942130.HIP.fdb.txt", f->path);
    must(fs_read_file(f->path, FILE_MAX, &text, &f->err), f->err);
    size_t line = 1, spoilt = 0;
    uint64_t x = 1, sum = 0;
    start(f);
    for (size_t at = 0; at < text.size; line++) {
        const uint8_t *stop = memchr(text.data + at, '\n', text.size - at);
        size_t size = (size_t)(stop - text.data) - at;
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        if (line % 9 == 4) {
            text.data[at + (x >> 33) % size] = x >> 32 & 1 ? 0x7f : '\0';
            sum += line;
            spoilt++;
        } else {
            buffer_put(&f->again, text.data + at, size + 1);
        }
        at += size + 1;
    }
    struct buffer others = f->again;
    f->again = (struct buffer){ 0 };
    start(f);

    must(tuning_text_read(TUNING_FIND, buffer_view(&text), &events, &f->err), f->err);

    assert_true(spoilt > 1000);
    assert_int_equal(f->bad, spoilt);
    assert_int_equal(f->bad_lines, sum);
    assert_true(bytes_equal(buffer_view(&f->again), buffer_view(&others)));
    buffer_done(&others);
}

TEST_F(tuning_real, every_row_of_genuine_databases_is_read_and_written)
{
    struct tuning_reader_events events = { on_record, on_bad, NULL, f };
    for (size_t i = 0; i < sizeof(databases) / sizeof(databases[0]); i++) {
        test_data_copy(databases[i].name, f->path);
        start(f);
        unlink(f->copy);
        must(perf_db_create(f->copy, &f->writer, &f->err), f->err);
        must(perf_db_read(f->path, &events, &f->err), f->err);
        assert_int_equal(f->records, databases[i].records);
        assert_int_equal(f->entries, databases[i].entries);
        assert_int_equal(f->bad, 0);
        must(perf_db_writer_finish(f->writer, &f->err), f->err);
        perf_db_writer_destroy(f->writer);
        f->writer = NULL;

        uint64_t hash = f->hash;
        start(f);
        must(perf_db_read(f->copy, &events, &f->err), f->err);

        assert_int_equal(f->records, databases[i].records);
        assert_true(f->hash == hash);
    }
}
