/* SPDX-License-Identifier: MIT */
#include "package_fixture.h"

#include "engine/digest/sha256.h"
#include "engine/package/kpkg.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum package_format format;
    const char *name;
} formats[] = { { PACKAGE_KDB, "gfx90a68.kdb" }, { PACKAGE_KILN, "gfx90a68.kpkg" } };

TEST_F(package, equal_entries_give_equal_package_files)
{
    for (unsigned i = 0; i < 2; i++) {
        BUFFER_AUTO struct buffer first =
            read_file(put_package(f, f->directory, formats[i].name, 0, 200));
        BUFFER_AUTO struct buffer second =
            read_file(put_package(f, f->other, formats[i].name, 0, 200));
        BUFFER_AUTO struct buffer third =
            read_file(put_package(f, f->other, formats[i].name, 1, 200));

        assert_true(bytes_equal(buffer_view(&first), buffer_view(&second)));
        assert_false(bytes_equal(buffer_view(&first), buffer_view(&third)));
    }
}

TEST_F(package, written_packages_pass_sqlites_integrity_check)
{
    for (unsigned i = 0; i < 2; i++) {
        sqlite3 *db = NULL;
        sqlite3_stmt *check = NULL;
        const char *path = put_package(f, f->directory, formats[i].name, 0, 50);
        assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "pragma integrity_check", -1, &check, NULL), 0);
        assert_int_equal(sqlite3_step(check), SQLITE_ROW);
        assert_string_equal(sqlite3_column_text(check, 0), "ok");
        sqlite3_finalize(check);
        sqlite3_close(db);
    }
}

TEST_F(package, a_kpkg_has_its_application_id_and_version)
{
    BUFFER_AUTO struct buffer content =
        read_file(put_package(f, f->directory, "gfx90a68.kpkg", 0, 1));
    static const uint8_t version[] = { 0, 0, 0, KPKG_VERSION };

    assert_memory_equal(content.data + 68, "KPKG", 4);
    assert_memory_equal(content.data + 60, version, 4);
    /* The header declares a rollback journal. With a write-ahead log, SQLite could not read the
     * file in a read-only directory. */
    assert_int_equal(content.data[18], 1);
}

static struct package_entry entry_of(const char *name, const char *args)
{
    return (struct package_entry){ .name = bytes_of_text(name),
                                   .args = bytes_of_text(args),
                                   .raw = bytes_of_text("object") };
}

static enum kiln_code add_entry(struct fixture *f, struct package_writer *writer, const char *name,
                                const char *args)
{
    struct package_entry entry = entry_of(name, args);
    return package_writer_add(writer, &entry, &f->err);
}

TEST_F(package, package_entries_out_of_order_are_refused)
{
    for (unsigned i = 0; i < 2; i++) {
        KILN_AUTO(package_writer) struct package_writer *writer = NULL;
        const char *path = path_in(f->directory, formats[i].name);
        must(package_writer_create(path, formats[i].format, &writer, &f->err), f->err);
        must(add_entry(f, writer, "b", "1"), f->err);
        must(add_entry(f, writer, "b", "10"), f->err);
        must(add_entry(f, writer, "b", "\xc3\xa4"), f->err);
        must(add_entry(f, writer, "ba", ""), f->err);

        assert_int_equal(add_entry(f, writer, "b", "2"), KILN_INVALID);
        assert_says(f->err.text, "order");
    }
}

TEST_F(package, a_repeated_package_entry_is_refused)
{
    for (unsigned i = 0; i < 2; i++) {
        KILN_AUTO(package_writer) struct package_writer *writer = NULL;
        const char *path = path_in(f->directory, formats[i].name);
        must(package_writer_create(path, formats[i].format, &writer, &f->err), f->err);
        must(add_entry(f, writer, "b", "1"), f->err);

        assert_int_equal(add_entry(f, writer, "b", "1"), KILN_INVALID);
        assert_says(f->err.text, "'b'");
    }
}

TEST_F(package, a_repeated_package_key_is_refused)
{
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    const char *path = path_in(f->directory, "gfx90a68.kpkg");
    must(package_writer_create(path, PACKAGE_KILN, &writer, &f->err), f->err);
    struct package_entry entry = entry_of("a", "");
    /* Entries without a key do not collide. */
    must(package_writer_add(writer, &entry, &f->err), f->err);
    entry.name = bytes_of_text("b");
    must(package_writer_add(writer, &entry, &f->err), f->err);
    entry.name = bytes_of_text("c");
    entry.key = key_of(1);
    must(package_writer_add(writer, &entry, &f->err), f->err);
    entry.name = bytes_of_text("d");

    assert_int_equal(package_writer_add(writer, &entry, &f->err), KILN_INVALID);
    assert_says(f->err.text, "key");
}

TEST_F(package, invalid_package_entries_are_refused)
{
    static char many[40000];
    memset(many, 'x', sizeof(many));
    struct package_entry cases[] = {
        entry_of("", "1"),  entry_of("a", "1"), entry_of("a", "1"),
        entry_of("a", "1"), entry_of("a", "1"), entry_of("a", "1"),
    };
    cases[1].raw = bytes_of(NULL, 0);
    cases[2].name = bytes_of("a\0b", 3);
    cases[3].options = bytes_of("a\0b", 3);
    cases[4].args = bytes_of(many, sizeof(many));
    cases[5].name = bytes_of(many, sizeof(many));
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (unsigned k = 0; k < 2; k++) {
            KILN_AUTO(package_writer) struct package_writer *writer = NULL;
            const char *path = path_in(f->directory, formats[k].name);
            must(package_writer_create(path, formats[k].format, &writer, &f->err), f->err);
            assert_int_equal(package_writer_add(writer, &cases[i], &f->err), KILN_INVALID);
            assert_says(f->err.text, "packing '");
        }
    }
}

TEST_F(package, truncated_headers_are_refused)
{
    for (unsigned count = 0; count < 2; count++) {
        KILN_AUTO(package_writer) struct package_writer *writer = NULL;
        const char *path = path_in(f->directory, "gfx90a68.kpkg");
        must(package_writer_create(path, PACKAGE_KILN, &writer, &f->err), f->err);
        struct package_entry entry = entry_of("a", "");
        entry.header_count = count;
        entry.headers = bytes_of("\1\0\0", 3);

        assert_int_equal(package_writer_add(writer, &entry, &f->err), KILN_INVALID);
        assert_says(f->err.text, count ? "truncated" : "extra");
    }
}

TEST_F(package, an_unfinished_package_is_removed)
{
    for (unsigned i = 0; i < 2; i++) {
        struct package_writer *writer = NULL;
        const char *path = path_in(f->directory, formats[i].name);
        must(package_writer_create(path, formats[i].format, &writer, &f->err), f->err);
        must(add_entry(f, writer, "a", "1"), f->err);

        package_writer_destroy(writer);

        assert_int_not_equal(access(path, F_OK), 0);
        char journal[300];
        snprintf(journal, sizeof(journal), "%s-journal", path);
        assert_int_not_equal(access(journal, F_OK), 0);
    }
}

TEST_F(package, a_package_writer_never_overwrites_a_file)
{
    for (unsigned i = 0; i < 2; i++) {
        struct package_writer *writer = NULL;
        const char *path = path_in(f->directory, formats[i].name);
        test_write_text(path, "mine");

        assert_int_not_equal(package_writer_create(path, formats[i].format, &writer, &f->err),
                             KILN_OK);

        assert_null(writer);
        assert_says(f->err.text, formats[i].name);
        BUFFER_AUTO struct buffer content = read_file(path);
        assert_true(bytes_equal_text(buffer_view(&content), "mine"));
    }
}

TEST_F(package, a_missing_package_directory_is_reported)
{
    for (unsigned i = 0; i < 2; i++) {
        struct package_writer *writer = NULL;
        const char *path = path_in(path_in(f->directory, "absent"), formats[i].name);
        assert_int_equal(package_writer_create(path, formats[i].format, &writer, &f->err),
                         KILN_NOT_FOUND);
        assert_null(writer);
    }
}

TEST_F(package, an_empty_package_is_valid)
{
    for (unsigned i = 0; i < 2; i++) {
        const char *path = put_package(f, f->directory, formats[i].name, 0, 0);
        struct package_options options = { .path = path };
        KILN_AUTO(package) struct package *package = NULL;
        struct package_report report;
        must(package_open(&options, &package, &f->err), f->err);
        must(package_check(package, NULL, NULL, &report, &f->err), f->err);
        assert_int_equal(report.rows + report.good + report.damaged, 0);
    }
}
