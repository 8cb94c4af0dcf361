/* SPDX-License-Identifier: MIT */
#include "tests/integration/cache_steps.h"

#include <stdio.h>
#include <string.h>

TEST_PROGRAM(write_large_cache, NULL)

TEST_F(caches, every_row_of_an_imported_cache_is_served_byte_for_byte)
{
    char counted[64];
    use_large_cache(f);
    daemon_process_start(&f->daemon);

    import_cache(f, f->path);

    expect_status(&f->result, 0, "");
    snprintf(counted, sizeof(counted), "\"imported\":%zu,\"damaged\":0", f->rows->count);
    assert_says(f->result.output, counted);
    expect_rows(f, KILN_TIER_DISK);
}

TEST_F(caches, every_row_of_an_installed_cache_is_served_byte_for_byte)
{
    use_large_cache(f);
    daemon_process_start(&f->daemon);

    kilnctl_ok(f, "pkg", "install", f->path);

    kilnctl_ok(f, "pkg", "show", CACHE, "--json");
    KILN_AUTO(json) struct json *shown = printed_json(&f->result);
    assert_int_equal(json_get_u64(shown, "kernels", 0), f->rows->count);
    expect_rows(f, KILN_TIER_PACKAGE);
}

TEST_F(caches, several_caches_are_imported_at_once)
{
    char other[160];
    use_small_cache(f);
    shell(f->directory, "mkdir other && cp " CACHE " other/gfx90a68.ukdb");
    snprintf(other, sizeof(other), "%s/other/gfx90a68.ukdb", f->directory);
    daemon_process_start(&f->daemon);

    kilnctl_fails(f, 5, "absent.ukdb", "kernel", "import", f->path, "/absent/absent.ukdb", other);

    kilnctl_ok(f, "kernel", "export", "--format", "ukdb", f->directory, "--db-id", "gfx90a68");
    shell_says("40", f->directory, "sqlite3 gfx90a68.ukdb 'select count(*) from kern_db'");
    expect_rows(f, KILN_TIER_DISK);
}

/* Makes a cache as a running MIOpen leaves it: most rows are only in the write-ahead log, and an
 * open transaction has changed all rows. */
static void open_live_cache(struct caches *f, struct writer *w)
{
    use_large_cache(f);
    shell(f->directory,
          "sqlite3 " CACHE
          " 'pragma journal_mode = wal; create table aside as select * from kern_db where id > 10; "
          "delete from kern_db where id > 10'");
    writer_start(w, f->path);
    writer_do(w, "pragma wal_autocheckpoint = 0; insert into kern_db select * from aside");
    writer_do(w, "pragma cache_size = 1; begin; update kern_db set kernel_hash = 'x', kernel_args "
                 "= kernel_args || 'x'");
    shell(f->directory, "test -s " CACHE "-wal");
}

TEST_F(caches, a_cache_that_a_writer_holds_open_is_imported_whole)
{
    struct writer w;
    open_live_cache(f, &w);
    daemon_process_start(&f->daemon);
    char *before = describe_files(f->directory);

    import_cache(f, f->path);

    expect_status(&f->result, 0, "");
    expect_files(f->directory, before);
    expect_rows(f, KILN_TIER_DISK);
    writer_do(&w, "rollback; delete from kern_db");
    writer_kill(&w);
}

TEST_F(caches, a_cache_that_a_writer_holds_open_is_installed_whole)
{
    struct writer w;
    open_live_cache(f, &w);
    daemon_process_start(&f->daemon);
    char *before = describe_files(f->directory);

    kilnctl_ok(f, "pkg", "install", f->path);

    expect_files(f->directory, before);
    expect_rows(f, KILN_TIER_PACKAGE);
    writer_kill(&w);
}

static void export_to(struct caches *f, const char *directory)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", f->daemon.directory, directory);
    kilnctl_ok(f, "kernel", "export", "--format", "ukdb", path);
}

TEST_F(caches, an_export_equals_the_file_miopen_would_write)
{
    use_large_cache(f);
    daemon_process_start(&f->daemon);
    import_cache(f, f->path);
    expect_status(&f->result, 0, "");

    export_to(f, "warm");

    const char *directory = f->daemon.directory;
    shell(directory, "ln -s '%s' original", f->path);
    shell_says("ok", directory, "sqlite3 warm/" CACHE " 'pragma integrity_check'");
    shell_says("4096 0", directory,
               "sqlite3 -separator ' ' warm/" CACHE
               " 'select page_size, user_version from pragma_page_size, "
               "pragma_user_version'");
    shell(directory, "for f in original warm/" CACHE "; do sqlite3 $f \"select type, name, "
                     "tbl_name, replace(sql, ' ,', ',') from sqlite_master order by name\" "
                     ">schema-$(basename $f); done; cmp schema-*");
    shell_says("0 0", directory,
               "sqlite3 -separator ' ' warm/" CACHE " \"attach 'original' as o; select "
               "(select count(*) from (select * from kern_db except select * from o.kern_db)), "
               "(select count(*) from (select * from o.kern_db except select * from kern_db))\"");
    /* MIOpen's first statement when it opens a cache, and its statement for a new kernel. */
    shell_says("wal", directory, "sqlite3 warm/" CACHE " 'pragma journal_mode = wal'");
    shell(directory, "sqlite3 warm/" CACHE
                     " \"insert or replace into kern_db(kernel_name, kernel_args, kernel_blob, "
                     "kernel_hash, uncompressed_size) values('a', 'b', x'00', 'c', 0)\"");
}

TEST_F(caches, import_export_import_export_is_the_identity)
{
    char first[160];
    use_large_cache(f);
    daemon_process_start(&f->daemon);
    import_cache(f, f->path);
    expect_status(&f->result, 0, "");
    export_to(f, "first");

    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    shell(f->daemon.directory, "rm -r '%s'", f->daemon.cache);
    daemon_process_start(&f->daemon);
    snprintf(first, sizeof(first), "%s/first/" CACHE, f->daemon.directory);
    import_cache(f, first);
    expect_status(&f->result, 0, "");
    export_to(f, "second");

    shell(f->daemon.directory, "cmp first/" CACHE " second/" CACHE);
    expect_rows(f, KILN_TIER_DISK);
    kilnctl_fails(f, 1, "exists already", "kernel", "export", f->directory);
}
