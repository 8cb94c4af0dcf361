/* SPDX-License-Identifier: MIT */
/* kilnctl imports the other rows of a cache with a damaged row, but nothing from a damaged file. */
#include "tests/integration/cache_steps.h"

#include "common/base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OBJECT_MAX (1u << 20)

struct damage {
    unsigned long long imported, damaged;
};

static struct damage import_damaged(struct caches *f, int status)
{
    daemon_process_start(&f->daemon);
    import_cache(f, f->path);
    expect_status(&f->result, status, CACHE);
    KILN_AUTO(json) struct json *reported = printed_json(&f->result);
    struct damage d = { .imported = json_get_u64(reported, "imported", 0),
                        .damaged = json_get_u64(reported, "damaged", 0) };
    struct kiln_client *client = daemon_client(&f->daemon);
    unsigned long long served = 0;
    for (size_t at = 0; at < f->rows->count; at++) {
        int tier;
        int rc = fetch_row(f, client, at, &tier);
        assert_true(rc == KILN_E_OK || rc == KILN_E_NOT_FOUND);
        served += rc == KILN_E_OK;
    }
    kiln_client_close(client);
    assert_int_equal(served, d.imported);
    return d;
}

static void expect_refused(struct caches *f)
{
    struct damage d = import_damaged(f, 1);
    assert_int_equal(d.imported, 0);
    assert_says(f->result.output, "nothing was imported");
    assert_says(f->result.output, "kilnctl kernel import --help");
}

static long offset_of_row(const struct caches *f, size_t at)
{
    char path[PATH_LENGTH_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer file, packed;
    buffer_init(&file, 64u << 20);
    buffer_init(&packed, OBJECT_MAX);
    snprintf(path, sizeof(path), "%s/objects/%zu.bz2", f->rows->directory, at);
    must(fs_read_file(path, OBJECT_MAX, &packed, &err), err);
    must(fs_read_file(f->path, 64u << 20, &file, &err), err);
    const uint8_t *found = memmem(file.data, file.size, packed.data, 32);
    assert_non_null(found);
    return (long)(found - file.data);
}

static void put_bytes(const struct caches *f, long at, struct bytes bytes)
{
    KILN_AUTO(fd) int fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes.data, bytes.size, at), bytes.size);
}

TEST_F(caches, a_damaged_row_of_a_cache_is_skipped)
{
    use_small_cache(f);
    put_bytes(f, offset_of_row(f, 7) + 25, bytes_of_text("damage"));

    struct damage d = import_damaged(f, 1);

    assert_int_equal(d.imported, SMALL_CACHE_ROWS - 1);
    assert_int_equal(d.damaged, 1);
    assert_says(f->result.output, "39 imported, 1 damaged");
}

static long page_of_row(const struct caches *f, size_t at)
{
    KILN_AUTO(mem)
    char *text =
        shell_text(f->directory,
                   "sqlite3 " CACHE " \"select pageno from dbstat where name = 'kern_db' and "
                   "pagetype = 'leaf' order by pageno limit 1 offset %zu\"",
                   at);
    assert_true(atol(text) > 1);
    return atol(text);
}

TEST(caches, a_cache_with_a_lost_page_is_refused)
{
    static const uint8_t nothing[4096];
    struct caches *f = *state;
    use_small_cache(f);
    put_bytes(f, (page_of_row(f, 2) - 1) * 4096, bytes_of(nothing, sizeof(nothing)));

    expect_refused(f);
}

TEST_F(caches, a_truncated_cache_is_refused)
{
    use_small_cache(f);
    shell(f->directory, "truncate -s $(($(stat -c %%s " CACHE ") / 8192 * 4096)) " CACHE);

    expect_refused(f);
}

static void leave_log(struct caches *f)
{
    struct writer w;
    use_small_cache(f);
    shell(f->directory,
          "sqlite3 " CACHE
          " 'pragma journal_mode = wal; create table aside as select * from kern_db where id > 10; "
          "delete from kern_db where id > 10'");
    writer_start(&w, f->path);
    writer_do(&w, "pragma wal_autocheckpoint = 0; insert into kern_db select * from aside");
    writer_kill(&w);
}

/* kilnctl imports the rows that MIOpen would see: SQLite's recovery of the log ends at the damaged
 * page. */
TEST_F(caches, transactions_after_a_damaged_page_of_a_caches_log_are_not_imported)
{
    leave_log(f);
    shell(f->directory, "printf damage | dd of=" CACHE "-wal bs=1 conv=notrunc status=none "
                        "seek=$(($(stat -c %%s " CACHE "-wal) / 2))");

    struct damage d = import_damaged(f, 0);

    assert_int_equal(d.imported, 10);
}

TEST(caches, a_cache_whose_beginning_is_lost_is_recovered_from_its_log)
{
    static const uint8_t nothing[512];
    struct caches *f = *state;
    leave_log(f);
    put_bytes(f, 0, bytes_of(nothing, sizeof(nothing)));

    struct damage d = import_damaged(f, 0);

    assert_int_equal(d.imported, SMALL_CACHE_ROWS);
}

TEST_F(caches, a_cache_with_a_truncated_journal_imports_no_wrong_rows)
{
    struct writer w;
    use_small_cache(f);
    writer_start(&w, f->path);
    writer_do(&w, "pragma cache_size = 1; begin exclusive; update kern_db set kernel_args = "
                  "kernel_args || 'x'; delete from kern_db where id % 2");
    writer_kill(&w);
    shell(f->directory, "truncate -s $(($(stat -c %%s " CACHE "-journal) / 3)) " CACHE "-journal");

    expect_refused(f);
}

TEST_F(caches, a_file_that_is_no_cache_is_refused)
{
    use_small_cache(f);
    shell(f->directory, "head -c 20000 /dev/urandom >" CACHE);

    expect_refused(f);
}

/* The commands are those in the help of 'kilnctl kernel import'. */
TEST(caches, the_rows_that_sqlite3_saves_of_a_damaged_cache_are_imported)
{
    static const uint8_t nothing[4096];
    struct caches *f = *state;
    use_small_cache(f);
    put_bytes(f, (page_of_row(f, 2) - 1) * 4096, bytes_of(nothing, sizeof(nothing)));
    shell(f->directory, "mv " CACHE " old && sqlite3 old 'pragma writable_schema = on' .dump | "
                        "sed 's/^ROLLBACK;.*/COMMIT;/' | sqlite3 " CACHE);

    struct damage d = import_damaged(f, 0);

    assert_in_range(d.imported, SMALL_CACHE_ROWS - 10, SMALL_CACHE_ROWS - 1);
    assert_int_equal(d.damaged, 0);
}
