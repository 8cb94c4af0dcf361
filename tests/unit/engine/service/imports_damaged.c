/* SPDX-License-Identifier: MIT */
#include "tests/support/test_files.h"
#include "tests/unit/engine/service/import_fixture.h"

#include "common/base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static size_t page_of(const struct users *f, const char *content)
{
    struct bytes file = test_read(f->file);
    const uint8_t *at = memmem(file.data, file.size, content, strlen(content));
    assert_non_null(at);
    return (size_t)(at - file.data) / PAGE * PAGE;
}

static void overwrite(const struct users *f, size_t at, size_t size)
{
    uint8_t bytes[PAGE];
    memset(bytes, 0xee, sizeof(bytes));
    int fd = open(f->file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && size <= sizeof(bytes));
    assert_int_equal(pwrite(fd, bytes, size, (off_t)at), size);
    close(fd);
}

/* Flips a bit in each occurrence of |content| in |f->file|. Returns false if there is none. */
static bool damage_all(const struct users *f, const char *content)
{
    BUFFER_AUTO struct buffer file;
    struct kiln_err err = KILN_ERR_INIT;
    buffer_init(&file, 16u << 20);
    must(fs_read_file(f->file, 16u << 20, &file, &err), err);
    bool any = false;
    uint8_t *at = file.data;
    while ((at = memmem(at, file.size - (size_t)(at - file.data), content, strlen(content)))) {
        *at ^= 1;
        any = true;
    }
    must(fs_replace_file(f->file, buffer_view(&file), 0644, &err), err);
    return any;
}

TEST_F(users, damaged_rows_are_counted_and_the_rest_is_imported)
{
    write_many(f, 20);
    flip_bit(f->file, bytes_of_text("the object of kernel number 4"));
    flip_bit(f->file, bytes_of_text("the object of kernel number 7"));
    import_cache(f, &f->ann, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 18);
    assert_int_equal(json_get_u64(answer, "damaged", 0), 2);
    assert_says(json_get_text(answer, "first", ""), "row 5");
    const struct json *rows = json_get(answer, "damaged_rows");
    assert_int_equal(json_count(rows), 2);
    assert_int_equal(json_get_u64(json_first(rows), "id", 0), 5);
    assert_string_equal(json_get_text(json_first(rows), "name", ""), "k4.o");
    assert_says(json_get_text(json_first(rows), "why", ""), "'k4.o'");
    assert_string_equal(json_get_text(answer, "database_id", ""), ID);
    assert_string_equal(json_get_text(answer, "scope", ""), "own");
    assert_int_equal(ask_imported(&f->ann, "k3.o").code, KILN_OK);
    assert_int_equal(ask_imported(&f->ann, "k4.o").code, KILN_NOT_FOUND);
}

TEST_F(users, an_imported_kernel_damaged_in_the_store_is_one_miss)
{
    import_one(f, &f->admin, "{\"for_all\":true}", "this object is for everybody here");
    users_stop(f);
    char path[100];
    snprintf(path, sizeof(path), "%s/kernels.db", f->engine.directory);
    flip_bit(path, bytes_of_text("this object is for everybody here"));
    users_start(f);

    assert_int_equal(ask_imported(&f->ann, "conv.o").code, KILN_NOT_FOUND);

    assert_int_equal(users_stat(f, "quarantined"), 1);
    assert_int_equal(listed_kernels(&f->ann), 0);
}

/* The file was damaged after kiln-transfer had checked it. Rows that were imported before the
 * damaged page stay. */
TEST_F(users, an_import_ends_at_a_page_that_cannot_be_read)
{
    write_many(f, MANY);
    overwrite(f, page_of(f, "the object of kernel number 400"), PAGE);
    import_cache(f, &f->ann, "{}");

    assert_reply_refuses(&f->ann, 0, KILN_CORRUPT, "kernels were imported and stay");
    assert_in_range(listed_kernels(&f->ann), 1, MANY - 1);
}

TEST_F(users, an_import_names_some_damaged_rows_and_counts_all)
{
    static struct kernel_row rows[MANY];
    static char names[MANY][16];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "k%u.o", i);
        rows[i] = (struct kernel_row)TEXT_KERNEL(names[i], ARGS, "one object of all of them");
    }
    write_cache(f, rows, MANY);
    assert_true(damage_all(f, "one object of all of them"));
    import_cache(f, &f->ann, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "damaged", 0), MANY);
    assert_int_equal(json_count(json_get(answer, "damaged_rows")), 200);
}

TEST_F(users, a_cache_without_damage_is_not_called_damaged)
{
    write_many(f, 20);
    import_cache(f, &f->ann, "{}");
    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "damaged", 9), 0);
    assert_null(json_get(answer, "damaged_rows"));
    assert_int_equal(json_get_u64(answer, "evicted", 9), 0);
}

#define LONG_NAME 300

TEST_F(users, a_row_with_an_invalid_name_counts_as_damaged)
{
    static char name[LONG_NAME + 1];
    memset(name, 'n', LONG_NAME);
    const struct kernel_row rows[] = { TEXT_KERNEL("first.o", ARGS, "the first"),
                                       TEXT_KERNEL("", ARGS, "one without a name"),
                                       TEXT_KERNEL(name, ARGS, "one with a long name") };
    write_cache(f, rows, sizeof(rows) / sizeof(rows[0]));

    import_cache(f, &f->ann, "{}");

    KILN_AUTO(json) struct json *answer = reply_json(&f->ann, 0);
    assert_int_equal(json_get_u64(answer, "imported", 0), 2);
    assert_int_equal(json_get_u64(answer, "damaged", 0), 1);
    assert_says(json_get_text(answer, "first", ""), "row 2");
    assert_says(json_get_text(answer, "first", ""), "no name");
    assert_int_equal(ask_imported(&f->ann, name).code, KILN_OK);
}

static void write_no_database(struct users *f)
{
    test_write_text(f->file, "not a database, and nothing like a row in it");
}

TEST_F(users, an_import_that_fails_before_its_start_is_noted_reports_its_error)
{
    write_no_database(f);
    begin_import(f, &f->ann, "{}");
    f->engine.executor.works_at_once = true;
    end_transfer(f);
    f->engine.executor.works_at_once = false;
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CORRUPT);
}

TEST_F(users, an_unreadable_cache_is_an_error)
{
    write_no_database(f);
    import_cache(f, &f->ann, "{}");
    assert_int_equal(reply_error(&f->ann, 0).code, KILN_CORRUPT);
    assert_int_equal(engine_fixture_staged(&f->engine), 0);
}
