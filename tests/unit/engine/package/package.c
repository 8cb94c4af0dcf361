/* SPDX-License-Identifier: MIT */
#include "package_fixture.h"

#include "common/protocol/messages.h"
#include "engine/digest/sha256.h"
#include "engine/package/package_format.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct package *opened(struct fixture *f, const char *path, bool trusted)
{
    struct package_options options = { .path = path, .readers = 2, .trusted = trusted };
    struct package *package = NULL;
    must(package_open(&options, &package, &f->err), f->err);
    return package;
}

static enum kiln_code try_open(struct fixture *f, const char *path)
{
    struct package_options options = { .path = path, .readers = 1 };
    struct package *package = NULL;
    enum kiln_code rc = package_open(&options, &package, &f->err);
    assert_int_equal(rc == KILN_OK, package != NULL);
    package_destroy(package);
    return rc;
}

static void change(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    char *why = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
}

static enum kiln_code find_named(struct fixture *f, struct package *package, unsigned number,
                                 bool *damaged)
{
    struct kernel_text text = text_of(number);
    f->raw.size = 0;
    f->err = KILN_ERR_INIT;
    enum kiln_code rc = package_find_named(
        package, &(struct kern_name){ bytes_of_text(text.name), bytes_of_text(text.args) }, &f->raw,
        damaged, &f->err);
    if (!rc) {
        BUFFER_AUTO struct buffer raw = object_of(number);
        assert_true(bytes_equal(buffer_view(&f->raw), buffer_view(&raw)));
    }
    return rc;
}

static enum kiln_code find_key(struct fixture *f, struct package *package, unsigned number,
                               bool *damaged)
{
    struct digest key = key_of(number);
    f->raw.size = 0;
    f->err = KILN_ERR_INIT;
    enum kiln_code rc = package_find_key(package, &key, &f->raw, damaged, &f->err);
    if (!rc) {
        BUFFER_AUTO struct buffer raw = object_of(number);
        assert_true(bytes_equal(buffer_view(&f->raw), buffer_view(&raw)));
    }
    return rc;
}

static const char *const both[] = { "gfx90a68.kdb", "gfx90a68.kpkg" };

TEST_F(package, packed_kernels_are_read_back)
{
    for (unsigned format = 0; format < 2; format++) {
        KILN_AUTO(package)
        struct package *package =
            opened(f, put_package(f, f->directory, both[format], 0, 30), false);
        for (unsigned i = 0; i < 30; i++) {
            bool damaged = true;
            must(find_named(f, package, i, &damaged), f->err);
            assert_false(damaged);
        }
        uint64_t rows = 0;
        must(package_rows(package, &rows, &f->err), f->err);
        assert_int_equal(rows, 30);
    }
}

TEST_F(package, a_miss_is_an_answer_without_a_message)
{
    for (unsigned format = 0; format < 2; format++) {
        KILN_AUTO(package)
        struct package *package = opened(f, put_package(f, f->directory, both[format], 0, 3), true);
        bool damaged = true;

        assert_int_equal(find_named(f, package, 3, &damaged), KILN_NOT_FOUND);

        assert_false(damaged);
        assert_string_equal(f->err.text, "");
        damaged = true;
        assert_int_equal(find_key(f, package, 3, &damaged), KILN_NOT_FOUND);
        assert_false(damaged);
        assert_string_equal(f->err.text, "");
    }
}

TEST_F(package, names_and_arguments_are_not_normalised)
{
    for (unsigned format = 0; format < 2; format++) {
        KILN_AUTO(package)
        struct package *package =
            opened(f, put_package(f, f->directory, both[format], 0, 3), false);
        struct kernel_text text = text_of(1);
        bool damaged = true;
        struct bytes name = bytes_of_text(text.name);

        assert_int_equal(
            package_find_named(package, &(struct kern_name){ name, bytes_of_text(text.args + 1) },
                               &f->raw, &damaged, &f->err),
            KILN_NOT_FOUND);
        text.name[0] = 'k';
        assert_int_equal(package_find_named(package,
                                            &(struct kern_name){ name, bytes_of_text(text.args) },
                                            &f->raw, &damaged, &f->err),
                         KILN_NOT_FOUND);
        assert_int_equal(
            package_find_named(package,
                               &(struct kern_name){ bytes_of(NULL, 0), bytes_of("a\0'\xff", 4) },
                               &f->raw, &damaged, &f->err),
            KILN_NOT_FOUND);
        assert_false(damaged);
    }
}

TEST_F(package, only_a_trusted_package_answers_for_keys)
{
    const char *path = put_package(f, f->directory, "gfx90a68.kpkg", 0, 3);
    KILN_AUTO(package) struct package *trusted = opened(f, path, true);
    KILN_AUTO(package) struct package *other = opened(f, path, false);
    bool damaged = true;

    must(find_key(f, trusted, 1, &damaged), f->err);
    assert_int_equal(find_key(f, other, 1, &damaged), KILN_NOT_FOUND);
    KILN_AUTO(package)
    struct package *kdb = opened(f, put_package(f, f->directory, "gfx90a68.kdb", 0, 3), true);
    assert_int_equal(find_key(f, kdb, 1, &damaged), KILN_NOT_FOUND);
}

TEST_F(package, a_package_describes_itself)
{
    const char *path = put_package(f, f->directory, "gfx90a68.resnet.kpkg", 0, 3);
    KILN_AUTO(package) struct package *package = opened(f, path, false);
    struct stat seen;
    assert_int_equal(stat(path, &seen), 0);

    const struct package_info *info = package_info(package);

    assert_string_equal(info->name, "gfx90a68.resnet.kpkg");
    assert_string_equal(info->path, path);
    assert_int_equal(info->format, PACKAGE_KILN);
    assert_string_equal(package_format_name(info->format), "kiln");
    assert_string_equal(info->database_id.device, "gfx90a");
    assert_int_equal(info->database_id.compute_units, 104);
    assert_int_equal(info->size, seen.st_size);
    assert_string_equal(info->signer, "");
}

/* ---- listing ---- */

struct listed {
    unsigned count, stop_at;
    uint64_t last_id;
    struct package_row row; /* a copy of the last row; its texts are no longer valid */
    char text[300];
};

static bool list(void *context, const struct package_row *row)
{
    struct listed *listed = context;
    assert_true(row->id > listed->last_id);
    listed->last_id = row->id;
    listed->row = *row;
    snprintf(listed->text, sizeof(listed->text), "%.*s|%.*s|%s|%s|%s", (int)row->name.size,
             (const char *)row->name.data, (int)row->args.size, (const char *)row->args.data,
             row->target, row->toolchain, row->program);
    return ++listed->count != listed->stop_at;
}

TEST_F(package, package_rows_can_be_listed_in_parts)
{
    for (unsigned format = 0; format < 2; format++) {
        KILN_AUTO(package)
        struct package *package =
            opened(f, put_package(f, f->directory, both[format], 0, 10), false);
        struct listed listed = { 0 };

        must(package_each(package, &(struct package_listing){ 0, 4, list, &listed }, &f->err),
             f->err);
        assert_int_equal(listed.count, 4);
        must(package_each(package, &(struct package_listing){ listed.last_id, 100, list, &listed },
                          &f->err),
             f->err);
        assert_int_equal(listed.count, 10);

        BUFFER_AUTO struct buffer raw = object_of(9);
        assert_int_equal(listed.row.raw_size, raw.size);
        assert_true(listed.row.stored_size > 0);
        struct digest object = sha256_of(buffer_view(&raw)), key = key_of(9);
        bool kiln = format == 1;
        assert_int_equal(digest_equal(&listed.row.object, &object), kiln);
        assert_int_equal(digest_equal(&listed.row.key, &key), kiln);
        assert_int_equal(listed.row.md5.size, kiln ? 0 : 32);
        assert_string_equal(listed.text,
                            kiln ? "Kernel00009.cl.o| -DNUMBER=9  -DFP32=1 -mcpu=gfx90a|gfx90a|"
                                   "hiprtc|Kernel.cl"
                                 : "Kernel00009.cl.o| -DNUMBER=9  -DFP32=1 -mcpu=gfx90a|||");
        listed = (struct listed){ .stop_at = 3 };
        must(package_each(package, &(struct package_listing){ 0, 100, list, &listed }, &f->err),
             f->err);
        assert_int_equal(listed.count, 3);
    }
}

/* ---- sources ---- */

static void add_with_headers(struct fixture *f, struct package_writer *writer, unsigned number,
                             const char *header_text)
{
    BUFFER_AUTO struct buffer headers;
    buffer_init(&headers, 4096);
    struct message_header records[] = {
        { .name = bytes_of_text("kiln/prelude.h"), .text = bytes_of_text(header_text) },
        { .name = bytes_of_text("empty.h") },
    };
    message_header_write(&headers, &records[0]);
    message_header_write(&headers, &records[1]);
    struct kernel_text text = text_of(number);
    BUFFER_AUTO struct buffer raw = object_of(number);
    struct package_entry entry = {
        .name = bytes_of_text(text.name),
        .args = bytes_of_text(text.args),
        .raw = buffer_view(&raw),
        .source = bytes_of_text("#include <kiln/prelude.h>\n"),
        .header_count = 2,
        .headers = buffer_view(&headers),
    };
    must(package_writer_add(writer, &entry, &f->err), f->err);
}

static const char *package_with_headers(struct fixture *f)
{
    const char *path = path_in(f->directory, "gfx906_60.kpkg");
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    must(package_writer_create(path, PACKAGE_KILN, &writer, &f->err), f->err);
    add_with_headers(f, writer, 1, "#define ONE 1\n");
    add_with_headers(f, writer, 2, "#define ONE 1\n");
    add_with_headers(f, writer, 3, "#define TWO 2\n");
    must(package_writer_finish(writer, &f->err), f->err);
    return path;
}

TEST_F(package, a_package_stores_each_source_once)
{
    const char *path = package_with_headers(f);
    sqlite3 *db = NULL;
    sqlite3_stmt *count = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "select count(*) from source", -1, &count, NULL), 0);
    assert_int_equal(sqlite3_step(count), SQLITE_ROW);
    /* one source, two different texts of kiln/prelude.h, and the empty text of empty.h */
    assert_int_equal(sqlite3_column_int(count, 0), 4);
    sqlite3_finalize(count);
    sqlite3_close(db);
}

/* ---- damage ---- */

/* Damages kernel 1 with |sql|. Lookups by name and by key must miss, with a message that
 * contains |says|. */
static void is_a_miss_that_says(struct fixture *f, const char *sql, const char *says)
{
    const char *path = put_package(f, f->directory, "gfx90a68.kpkg", 0, 4);
    change(path, sql);
    KILN_AUTO(package) struct package *package = opened(f, path, true);
    bool damaged = false;
    assert_int_equal(find_named(f, package, 1, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_says(f->err.text, "'gfx90a68.kpkg'");
    assert_says(f->err.text, says);
    damaged = false;
    assert_int_equal(find_key(f, package, 1, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    must(find_named(f, package, 2, &damaged), f->err);
    assert_false(damaged);
}

#define OF_1 " where name = 'Kernel00001.cl.o'"
#define OBJECT_1 " where sha256 = (select object from kernel" OF_1 ")"

TEST_F(package, damage_in_a_kpkg_is_a_miss)
{
    is_a_miss_that_says(f, "update kernel set claim = x'00'" OF_1, "row 2");
    is_a_miss_that_says(f, "update kernel set target = 'gfx906'" OF_1, "row 2");
    is_a_miss_that_says(f, "update kernel set options = '-O0'" OF_1, "row 2");
    is_a_miss_that_says(f, "update kernel set source = x'00'" OF_1, "row 2");
    is_a_miss_that_says(
        f, "update kernel set object = (select object from kernel where id = 1)" OF_1, "row 2");
    is_a_miss_that_says(f, "delete from object" OBJECT_1, "claims 0 bytes");
    is_a_miss_that_says(f, "update object set raw_size = raw_size + 1" OBJECT_1, "");
    is_a_miss_that_says(f, "update object set raw_size = 1000000000000" OBJECT_1, "claims");
    is_a_miss_that_says(f, "update object set codec = 'x', bytes = 7" OBJECT_1, "");
    is_a_miss_that_says(f, "update object set codec = 0, bytes = zeroblob(raw_size)" OBJECT_1,
                        "SHA-256");
}

TEST_F(package, an_unknown_codec_is_a_miss_without_damage)
{
    const char *path = put_package(f, f->directory, "gfx90a68.kpkg", 0, 4);
    change(path, "update object set codec = 99" OBJECT_1);
    KILN_AUTO(package) struct package *package = opened(f, path, true);
    struct package_report report;
    bool damaged = true;

    assert_int_equal(find_named(f, package, 1, &damaged), KILN_NOT_FOUND);

    assert_false(damaged);
    assert_string_equal(f->err.text, "");
    must(package_check(package, NULL, NULL, &report, &f->err), f->err);
    assert_int_equal(report.damaged, 1);
    assert_says(report.first, "form 99");
}

TEST_F(package, damage_in_a_kdb_is_a_miss)
{
    static const char *const damage[] = {
        "update kern_db set kernel_hash = '00000000000000000000000000000000'",
        "update kern_db set kernel_blob = x'00'",
        "update kern_db set uncompressed_size = uncompressed_size + 1",
    };
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        const char *path = put_package(f, f->directory, "gfx90a68.kdb", 0, 4);
        char sql[200];
        snprintf(sql, sizeof(sql), "%s where kernel_name = 'Kernel00002.cl.o'", damage[i]);
        change(path, sql);
        KILN_AUTO(package) struct package *package = opened(f, path, false);
        bool damaged = false;

        assert_int_equal(find_named(f, package, 2, &damaged), KILN_NOT_FOUND);

        assert_true(damaged);
        assert_says(f->err.text, "'gfx90a68.kdb'");
        must(find_named(f, package, 1, &damaged), f->err);
        assert_false(damaged);
    }
}

/* ---- checking a whole package ---- */

static bool count_calls(void *context, uint64_t done, uint64_t rows)
{
    unsigned *calls = context;
    ++*calls;
    assert_int_equal(done, *calls);
    assert_int_equal(rows, 10);
    return *calls != 100;
}

static bool stop(void *context, uint64_t done, uint64_t rows)
{
    (void)context;
    (void)rows;
    return done < 2;
}

TEST_F(package, skipping_a_row_does_not_mark_the_package_damaged)
{
    for (unsigned format = 0; format < 2; format++) {
        const char *path = put_package(f, f->directory, both[format], 0, 4);
        change(path, format ? "update kernel set claim = x'00'" OF_1
                            : "update kern_db set kernel_blob = x'00' "
                              "where kernel_name = 'Kernel00001.cl.o'");
        KILN_AUTO(package) struct package *package = opened(f, path, false);
        struct kernel_text text = text_of(2);
        bool damaged = true;

        package_shun(package,
                     &(struct kern_name){ bytes_of_text(text.name), bytes_of_text(text.args) });
        assert_int_equal(find_named(f, package, 2, &damaged), KILN_NOT_FOUND);
        assert_false(damaged);
        assert_int_equal(find_named(f, package, 9, &damaged), KILN_NOT_FOUND);
        assert_false(package_has_damaged_rows(package));

        assert_int_equal(find_named(f, package, 1, &damaged), KILN_NOT_FOUND);
        assert_true(damaged);
        assert_true(package_has_damaged_rows(package));
    }
}

TEST_F(package, a_damaged_row_found_by_key_marks_the_package_damaged)
{
    const char *path = put_package(f, f->directory, "gfx90a68.kpkg", 0, 4);
    change(path, "update kernel set claim = x'00'" OF_1);
    KILN_AUTO(package) struct package *package = opened(f, path, true);
    bool damaged = false;
    assert_int_equal(find_key(f, package, 9, &damaged), KILN_NOT_FOUND);
    assert_false(package_has_damaged_rows(package));
    assert_int_equal(find_key(f, package, 1, &damaged), KILN_NOT_FOUND);
    assert_true(damaged);
    assert_true(package_has_damaged_rows(package));
}

TEST_F(package, a_package_check_reads_every_row)
{
    for (unsigned format = 0; format < 2; format++) {
        KILN_AUTO(package)
        struct package *package =
            opened(f, put_package(f, f->directory, both[format], 0, 10), false);
        struct package_report report;
        unsigned calls = 0;

        must(package_check(package, count_calls, &calls, &report, &f->err), f->err);

        assert_int_equal(calls, 10);
        assert_int_equal(report.rows, 10);
        assert_int_equal(report.good, 10);
        assert_int_equal(report.damaged, 0);
        assert_string_equal(report.first, "");
        assert_false(report.file_changed);
        assert_int_equal(package_check(package, stop, NULL, &report, &f->err), KILN_CANCELLED);
    }
}

TEST_F(package, a_package_check_reports_damaged_rows)
{
    static const char *const sql[] = {
        "update kern_db set kernel_blob = x'00' where id in (3, 5)",
        "update object set bytes = x'00' where rowid in (3, 5)",
    };
    for (unsigned format = 0; format < 2; format++) {
        const char *path = put_package(f, f->directory, both[format], 0, 10);
        change(path, sql[format]);
        KILN_AUTO(package) struct package *package = opened(f, path, false);
        struct package_report report;

        must(package_check(package, NULL, NULL, &report, &f->err), f->err);

        assert_int_equal(report.good, 8);
        assert_int_equal(report.damaged, 2);
        assert_true(strlen(report.first) > 10);
    }
}

TEST_F(package, a_package_check_includes_sources)
{
    static const char *const damage[] = {
        "update source set bytes = zeroblob(length(bytes)), codec = 0, raw_size = length(bytes) "
        "where raw_size > 0",
        "delete from source",
        "update source set raw_size = raw_size + 1",
    };
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        const char *path = package_with_headers(f);
        change(path, damage[i]);
        KILN_AUTO(package) struct package *package = opened(f, path, false);
        struct package_report report;

        must(package_check(package, NULL, NULL, &report, &f->err), f->err);

        assert_int_equal(report.good, 0);
        assert_int_equal(report.damaged, 3);
        assert_says(report.first, i == 2 ? "stored" : "source");
        assert_int_equal(unlink(path), 0);
    }
}

TEST_F(package, a_package_check_compares_the_file_with_its_record)
{
    const char *path = put_package(f, f->directory, "gfx90a68.kdb", 0, 3);
    BUFFER_AUTO struct buffer content = read_file(path);
    struct package_record record = { .sha256 = sha256_of(buffer_view(&content)), .rows = 3 };
    struct package_options options = { .path = path, .record = &record };
    struct package_report report;
    KILN_AUTO(package) struct package *same = NULL, *changed = NULL;

    must(package_open(&options, &same, &f->err), f->err);
    must(package_check(same, NULL, NULL, &report, &f->err), f->err);
    assert_false(report.file_changed);
    record.sha256.bytes[0] ^= 1;
    must(package_open(&options, &changed, &f->err), f->err);
    must(package_check(changed, NULL, NULL, &report, &f->err), f->err);
    assert_true(report.file_changed);
    assert_int_equal(report.good, 3);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(package_check(changed, NULL, NULL, &report, &f->err), KILN_NOT_FOUND);
    assert_says(f->err.text, "cannot open");
}

/* ---- files that are not packages ---- */

TEST_F(package, a_file_that_is_not_a_package_is_refused)
{
    const char *kdb = path_in(f->directory, "gfx90a68.kdb"),
               *kpkg = path_in(f->directory, "gfx90a.kpkg");

    assert_int_equal(try_open(f, kdb), KILN_NOT_FOUND);
    assert_int_equal(try_open(f, path_in(f->directory, "gfx90a68.txt")), KILN_INVALID);
    assert_says(f->err.text, ".ukdb");
    assert_int_equal(mkdir(kdb, 0700), 0);
    assert_int_equal(try_open(f, kdb), KILN_CORRUPT);
    assert_says(f->err.text, "regular");
    assert_int_equal(rmdir(kdb), 0);
    test_write_text(kdb, "");
    assert_int_equal(try_open(f, kdb), KILN_BUSY);
    assert_says(f->err.text, "0 bytes");
    uint8_t zeros[4096] = { 0 };
    test_write(kdb, bytes_of(zeros, sizeof(zeros)));
    assert_int_equal(try_open(f, kdb), KILN_CORRUPT);
    assert_says(f->err.text, "SQLite");
    assert_int_equal(rename(put_package(f, f->directory, "gfx90a68.kdb", 0, 3), kpkg), 0);
    assert_int_equal(try_open(f, kpkg), KILN_CORRUPT);
    assert_says(f->err.text, "kiln");
    assert_int_equal(rename(put_package(f, f->directory, "gfx90a.kpkg", 0, 3), kdb), 0);
    assert_int_equal(try_open(f, kdb), KILN_CORRUPT);
    assert_says(f->err.text, "kern_db");
    write_package(f, path_in(f->directory, "unknown.kdb"), PACKAGE_KDB, 0, 1);
    assert_int_equal(try_open(f, path_in(f->directory, "unknown.kdb")), KILN_INVALID);
    assert_says(f->err.text, "device");
}

TEST_F(package, a_package_of_a_newer_format_is_refused)
{
    const char *path = put_package(f, f->directory, "gfx90a68.kpkg", 0, 3);
    change(path, "pragma user_version = 2");

    assert_int_equal(try_open(f, path), KILN_UNSUPPORTED);

    assert_says(f->err.text, "format 2");
}

TEST_F(package, a_package_with_foreign_tables_is_refused)
{
    static const char *const damage[] = {
        "drop table object",
        "drop table kernel",
        "alter table kernel drop column program",
        "alter table kernel rename to k; create view kernel as select * from k",
        "alter table source rename to s",
    };
    for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
        const char *path = put_package(f, f->directory, "gfx90a68.kpkg", 0, 3);
        change(path, damage[i]);
        assert_int_equal(try_open(f, path), KILN_CORRUPT);
        assert_true(strlen(f->err.text) > 20);
    }
}

TEST_F(package, a_truncated_package_is_reported_as_incomplete)
{
    for (unsigned format = 0; format < 2; format++) {
        const char *path = put_package(f, f->directory, both[format], 0, 20);
        BUFFER_AUTO struct buffer content = read_file(path);
        for (size_t size = 0; size < content.size; size += 1 + content.size / 50) {
            test_write(path, bytes_of(content.data, size));
            assert_int_equal(try_open(f, path), KILN_BUSY);
            assert_says(f->err.text, "incomplete");
        }
    }
}

TEST_F(package, a_package_with_a_write_ahead_log_is_refused)
{
    const char *path = put_package(f, f->directory, "gfx90a68.ukdb", 0, 3);
    change(path, "pragma journal_mode = wal");
    char log[300];
    snprintf(log, sizeof(log), "%s-wal", path);

    must(try_open(f, path), f->err);
    test_write_text(log, "");
    must(try_open(f, path), f->err);
    test_write_text(log, "frames");
    assert_int_equal(try_open(f, path), KILN_UNSUPPORTED);
    assert_says(f->err.text, "write-ahead");
    assert_says(f->err.text, "kilnctl");
}

TEST_F(package, an_open_package_survives_removal_and_replacement_of_its_file)
{
    for (unsigned format = 0; format < 2; format++) {
        const char *path = put_package(f, f->directory, both[format], 0, 3);
        KILN_AUTO(package) struct package *package = opened(f, path, false);
        bool damaged = true;

        assert_int_equal(unlink(path), 0);
        must(find_named(f, package, 1, &damaged), f->err);
        put_package(f, f->directory, both[format], 10, 3);
        must(find_named(f, package, 1, &damaged), f->err);
        assert_int_equal(find_named(f, package, 11, &damaged), KILN_NOT_FOUND);
    }
}

TEST_F(package, a_package_changed_in_place_gives_no_wrong_object)
{
    for (unsigned format = 0; format < 2; format++) {
        const char *path = put_package(f, f->directory, both[format], 0, 20);
        KILN_AUTO(package) struct package *package = opened(f, path, false);
        const char *new_path = put_package(f, f->other, both[format], 5, 40);
        BUFFER_AUTO struct buffer content = read_file(new_path);
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, content.data, content.size, 0), content.size);
        close(fd);

        for (unsigned i = 0; i < 45; i++) {
            bool damaged = false;
            enum kiln_code rc = find_named(f, package, i, &damaged); /* checks the object, too */
            assert_true(rc == KILN_OK || rc == KILN_NOT_FOUND);
        }
    }
}
