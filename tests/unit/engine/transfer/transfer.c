/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/transfer/transfer_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

TEST_F(transfer, takes_a_package_from_a_descriptor)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    struct stat seen;

    run(f);

    assert_int_equal(fstat(f->fd, &seen), 0);
    assert_int_equal(f->result.size, seen.st_size);
    assert_string_equal(f->result.source, "");
    assert_string_equal(f->result.signer, "");
    assert_string_equal(f->stages, "fetching checking");
    assert_int_equal(f->done, ROWS);
    assert_int_equal(f->total, ROWS);
    expect_installed(f);
}

static unsigned syncs;

WRAP(int, fsync, int fd)
{
    syncs++;
    return __real_fsync(fd);
}

TEST_F(transfer, a_file_that_kilnd_copies_is_not_synced_before)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    syncs = 0;

    run(f);

    assert_int_equal(syncs, 0);
    expect_installed(f);
}

TEST_F(transfer, takes_a_package_from_a_server)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, PACKAGE);

    run(f);

    assert_string_equal(f->result.source, f->url);
    expect_installed(f);
}

TEST_F(transfer, takes_a_package_from_a_file_url)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_file_url(f, PACKAGE);

    run(f);

    expect_installed(f);
}

TEST_F(transfer, unpacks_bzip2_of_several_streams)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    from_server(f, PACKAGE ".bz2");

    run(f);

    assert_string_equal(f->stages, "fetching unpacking checking");
    expect_installed(f);
}

TEST_F(transfer, bzip2_is_recognised_by_its_content)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, "packed");
    from_descriptor(f, "packed");
    f->job.name = PACKAGE;

    run(f);

    expect_installed(f);
}

TEST_F(transfer, a_package_gets_the_name_that_the_user_gave)
{
    package_write(&f->p, "latest", ROWS, OBJECT_SIZE);
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_server(f, "latest");
    f->job.name = PACKAGE ".bz2";

    run(f);

    expect_installed(f);
}

TEST_F(transfer, invalid_package_names_are_refused)
{
    static const char *const names[] = {
        "",           ".hidden.kdb", "../gfx90a68.kdb", "sub/gfx90a68.kdb", "gfx90a68.kdb\n",
        "readme.txt", "gfx90a68",    "gfx90a68.kdb.gz", "gfx90a_200.kdb",   ".bz2",
    };
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        f->job.name = names[i];
        if (run(f) != KILN_INVALID)
            fail_msg("'%s': code %d, %s", names[i], f->result.err.code, f->result.err.text);
        assert_is_empty(f->p.staging);
    }
}

TEST_F(transfer, a_file_that_is_not_named_like_a_package_is_called_no_package)
{
    package_write(&f->p, "foo.txt", ROWS, OBJECT_SIZE);
    from_descriptor(f, "foo.txt");
    expect_refused(f, KILN_INVALID, "'foo.txt' is not a package: the name of a package ends in");
    f->job.name = "gfx90a68.txt.bz2";
    expect_refused(f, KILN_INVALID, "'gfx90a68.txt' is not a package");
}

TEST_F(transfer, a_url_without_a_file_name_is_refused)
{
    f->job.url = "http://127.0.0.1:1/";

    expect_refused(f, KILN_INVALID, "file name");
}

TEST(transfer, a_job_without_url_and_file_is_refused)
{
    expect_refused(*state, KILN_INVALID, "neither");
}

TEST_F(transfer, only_regular_files_are_transferred)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    f->job.name = PACKAGE;
    f->job.content_fd = ends[0];
    expect_refused(f, KILN_INVALID, "regular file");

    f->fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    f->job.content_fd = f->fd;
    expect_refused(f, KILN_INVALID, "regular file");

    close(f->fd);
    f->fd = open(f->p.files, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->job.content_fd = f->fd;
    expect_refused(f, KILN_INVALID, "regular file");
    close(ends[0]);
    close(ends[1]);
}

TEST_F(transfer, a_pipe_behind_a_file_url_is_refused_at_once)
{
    assert_int_equal(mkfifo(package_path(&f->p, PACKAGE), 0600), 0);
    from_file_url(f, PACKAGE);

    expect_refused(f, KILN_INVALID, "regular file");
}

TEST_F(transfer, an_unreadable_descriptor_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    f->fd = open(package_path(&f->p, PACKAGE), O_WRONLY | O_CLOEXEC);
    f->job.content_fd = f->fd;
    f->job.name = PACKAGE;

    expect_refused(f, KILN_IO, "cannot read");
}

TEST_F(transfer, a_missing_file_is_reported_with_its_name)
{
    from_file_url(f, PACKAGE);

    expect_refused(f, KILN_NOT_FOUND, PACKAGE);
}

TEST_F(transfer, a_package_missing_on_the_server_is_not_found)
{
    from_server(f, PACKAGE);

    expect_refused(f, KILN_NOT_FOUND, "status 404");
}

TEST_F(transfer, a_package_beyond_the_limit_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    f->job.size_limit = 50000;

    expect_refused(f, KILN_FULL, "package_limit");
}

TEST_F(transfer, a_package_that_unpacks_beyond_the_limit_is_refused)
{
    int fd = open(package_path(&f->p, "zeros"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8 << 20), 0);
    close(fd);
    package_pack(&f->p, "zeros", PACKAGE ".bz2");
    from_descriptor(f, PACKAGE ".bz2");
    f->job.size_limit = 1 << 20;

    expect_refused(f, KILN_FULL, "package_limit");
}

static uint64_t free_blocks; /* number of free blocks that fstatvfs reports; 0: the real number */

WRAP(int, fstatvfs, int fd, struct statvfs *ret_seen)
{
    int rc = __real_fstatvfs(fd, ret_seen);
    if (rc == 0 && free_blocks > 0) {
        ret_seen->f_frsize = 1000;
        ret_seen->f_bavail = free_blocks;
    }
    return rc;
}

/* An administrator's package may fill the disk. */
TEST_F(transfer, a_users_cache_takes_half_of_the_free_disk_at_most)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    free_blocks = 100;
    enum kiln_code as_package = run(f);
    assert_int_equal(unlink(f->result.path), 0);
    f->job.of_user = true;
    enum kiln_code as_cache = run(f);
    free_blocks = 0;

    assert_int_equal(as_package, KILN_OK);
    assert_int_equal(as_cache, KILN_FULL);
    assert_says(f->result.err.text, "50000");
    assert_is_empty(f->p.staging);
}

TEST_F(transfer, concurrent_imports_share_the_free_disk_space)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    f->job.of_user = true;
    f->job.disk_part = 6;
    free_blocks = 60;
    enum kiln_code rc = run(f);
    free_blocks = 0;

    assert_int_equal(rc, KILN_FULL);
    assert_says(f->result.err.text, "10000");
    assert_is_empty(f->p.staging);
}

TEST_F(transfer, a_users_cache_unpacks_to_half_of_the_free_disk_at_most)
{
    int fd = open(package_path(&f->p, "zeros"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8 << 20), 0);
    close(fd);
    package_pack(&f->p, "zeros", PACKAGE ".bz2");
    from_descriptor(f, PACKAGE ".bz2");
    f->job.of_user = true;
    free_blocks = 2000;
    enum kiln_code rc = run(f);
    free_blocks = 0;

    assert_int_equal(rc, KILN_FULL);
    assert_says(f->result.err.text, "its share");
    assert_is_empty(f->p.staging);
}

TEST_F(transfer, the_refusal_of_a_large_cache_names_its_limit)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    f->job.of_user = true;
    f->job.size_limit = 50000;

    expect_refused(f, KILN_FULL, "cache_limit");
}

TEST_F(transfer, takes_a_tuning_file_and_looks_for_no_kernels_in_it)
{
    int fd = open(package_path(&f->p, "a.txt"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "key=value\n", 10), 10);
    close(fd);
    package_pack(&f->p, "a.txt", "gfx90a68.HIP.fdb.txt.bz2");
    from_descriptor(f, "gfx90a68.HIP.fdb.txt.bz2");
    f->job.of_user = true;
    f->job.unchecked = true;

    must(run(f), f->result.err);

    assert_string_equal(f->result.name, "gfx90a68.HIP.fdb.txt");
    assert_int_equal(f->result.size, 10);
    assert_int_equal(f->result.rows, 0);
}

TEST_F(transfer, a_tuning_file_beyond_the_limit_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    f->job.of_user = true;
    f->job.unchecked = true;
    f->job.size_limit = 50000;

    expect_refused(f, KILN_FULL, "tuning file");
}

static bool shrinks;
static unsigned reads;

WRAP(ssize_t, pread, int fd, void *data, size_t size, off_t at)
{
    if (shrinks && ++reads == 2)
        assert_int_equal(ftruncate(fd, 1000), 0);
    return __real_pread(fd, data, size, at);
}

TEST_F(transfer, survives_a_file_that_shrinks_while_it_is_copied)
{
    package_write(&f->p, PACKAGE, ROWS, 50000);
    f->fd = open(package_path(&f->p, PACKAGE), O_RDWR | O_CLOEXEC);
    f->job.content_fd = f->fd;
    f->job.name = PACKAGE;
    reads = 0;
    shrinks = true;

    enum kiln_code rc = run(f);
    shrinks = false;

    assert_int_equal(rc, KILN_CORRUPT);
    assert_true(reads >= 2);
    assert_is_empty(f->p.staging);
}

static bool disk_is_full;

WRAP(ssize_t, write, int fd, const void *data, size_t size)
{
    if (!disk_is_full)
        return __real_write(fd, data, size);
    errno = ENOSPC;
    return -1;
}

TEST_F(transfer, a_full_disk_is_reported_by_a_transfer)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    disk_is_full = true;

    enum kiln_code rc = run(f);
    disk_is_full = false;

    assert_int_equal(rc, KILN_FULL);
    assert_says(f->result.err.text, "No space");
    assert_is_empty(f->p.staging);
}

TEST_F(transfer, a_package_with_a_damaged_object_is_refused_with_its_name)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_damage(&f->p, PACKAGE);
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "(1 of");
    assert_says(f->result.err.text, "conv");
}

TEST_F(transfer, a_cache_with_a_damaged_row_is_accepted)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_damage(&f->p, PACKAGE);
    from_descriptor(f, PACKAGE);
    f->job.of_user = true;

    run(f);

    expect_installed(f);
}

static void overwrite(struct fixture *f, off_t at, size_t size)
{
    char wrong[4096];
    int fd = open(package_path(&f->p, PACKAGE), O_WRONLY | O_CLOEXEC);
    memset(wrong, 0xee, sizeof(wrong));
    assert_int_equal(pwrite(fd, wrong, size, at), size);
    close(fd);
}

/* Damages page 2, which is the root of the table, and then the header of the file. */
TEST_F(transfer, a_damaged_cache_is_refused_as_a_whole)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    overwrite(f, 4096, 4096);
    from_descriptor(f, PACKAGE);
    f->job.of_user = true;
    expect_refused(f, KILN_CORRUPT, "'" PACKAGE "' is damaged");
    assert_says(f->result.err.text, "nothing was imported");
    assert_says(f->result.err.text, "kernel import --help");

    overwrite(f, 0, 100);
    expect_refused(f, KILN_CORRUPT, "file is not a database");
}

TEST_F(transfer, a_truncated_cache_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    assert_int_equal(truncate(package_path(&f->p, PACKAGE), 3 * 4096), 0);
    from_descriptor(f, PACKAGE);
    f->job.of_user = true;

    expect_refused(f, KILN_CORRUPT, "malformed");
}

TEST_F(transfer, a_cache_may_have_any_name)
{
    package_write(&f->p, "old-cache", ROWS, OBJECT_SIZE);
    from_descriptor(f, "old-cache");
    f->job.of_user = true;

    assert_int_equal(run(f), KILN_OK);

    assert_string_equal(f->result.name, "old-cache");
    assert_int_equal(f->result.rows, ROWS);
}

TEST_F(transfer, a_truncated_package_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    assert_int_equal(truncate(package_path(&f->p, PACKAGE), 50000), 0);
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "incomplete");
}

TEST_F(transfer, a_truncated_bzip2_package_is_refused)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    package_pack(&f->p, PACKAGE, PACKAGE ".bz2");
    assert_int_equal(truncate(package_path(&f->p, PACKAGE ".bz2"), 50000), 0);
    from_descriptor(f, PACKAGE ".bz2");

    expect_refused(f, KILN_CORRUPT, "unpacking");
}

TEST_F(transfer, a_file_that_is_not_a_database_is_refused)
{
    int fd = open(package_path(&f->p, PACKAGE), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    static const char page[] = "<html>Please log in</html>";
    char more[4096] = { 0 };
    assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
    assert_int_equal(write(fd, more, sizeof(more)), sizeof(more));
    close(fd);
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "SQLite");
}

TEST_F(transfer, a_web_page_is_refused_as_a_package)
{
    static const char page[] = "<html>Log in</html>";
    int fd = open(package_path(&f->p, PACKAGE), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
    close(fd);
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "web");
}

TEST_F(transfer, an_empty_package_file_is_refused)
{
    close(open(package_path(&f->p, PACKAGE), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    from_descriptor(f, PACKAGE);

    expect_refused(f, KILN_CORRUPT, "incomplete");
}

TEST_F(transfer, a_missing_staging_directory_is_reported)
{
    package_write(&f->p, PACKAGE, ROWS, OBJECT_SIZE);
    from_descriptor(f, PACKAGE);
    f->job.staging = "/nonexistent/staging";

    assert_int_equal(run(f), KILN_NOT_FOUND);

    assert_says(f->result.err.text, "/nonexistent/staging");
}
