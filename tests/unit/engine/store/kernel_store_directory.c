/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/child.h"
#include "tests/support/test_files.h"

#include "common/base/fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool noticed(struct fixture *f, const char *words)
{
    return kernel_store_take_notice(f->store, f->notice) == KERNEL_NOTICE_REPLACED &&
           strstr(f->notice, words) && strstr(f->notice, f->file);
}

TEST_F(store, a_removed_file_is_created_again_by_the_next_write)
{
    store_one(f, 1);
    assert_int_equal(unlink(f->file), 0);
    assert_true(holds(f, 1));

    store_one(f, 2);

    assert_true(noticed(f, "removed"));
    assert_false(kernel_store_take_notice(f->store, f->notice));
    assert_false(holds(f, 1));
    assert_true(holds(f, 2));
    assert_int_equal(ask(f, "select count(*) from kernel"), 1);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_true(holds(f, 2));
}

TEST_F(store, a_removed_directory_is_created_again_with_its_contents)
{
    struct stat seen;
    store_one(f, 1);
    fs_remove_tree(AT_FDCWD, f->directory);

    store_one(f, 2);

    assert_true(noticed(f, "removed"));
    assert_true(holds(f, 2));
    assert_int_equal(files(f, "CACHEDIR.TAG"), 1);
    assert_int_equal(files(f, "kilnd.lock"), 1);
    assert_int_equal(stat(f->directory, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_true(holds(f, 2));
}

TEST_F(store, an_emptied_directory_is_filled_again)
{
    struct digest key = key_of(1);
    store_one(f, 1);
    fs_empty_directory(f->directory);

    assert_int_equal(kernel_store_touch(f->store, &key, 1, 1800000000, &f->err), KILN_OK);

    assert_true(noticed(f, "removed"));
    assert_int_equal(files(f, "kernels.db"), 3);
    assert_int_equal(files(f, "kilnd.lock"), 1);
}

/* Makes a database with only kernel 1 at |path|. Tests put it in place of the database in use. */
static void make_older(struct fixture *f, char path[200])
{
    store_one(f, 1);
    close_store(f);
    snprintf(path, 200, "%s.older", f->file);
    test_write(path, test_read(f->file));
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
}

TEST_F(store, a_replacement_file_is_used_without_the_old_log)
{
    char older[200];
    make_older(f, older);
    for (unsigned i = 2; i < 30; i++)
        store_one(f, i);
    assert_int_equal(rename(older, f->file), 0);

    store_one(f, 99);

    assert_true(noticed(f, "replaced"));
    assert_true(holds(f, 1));
    assert_false(holds(f, 2));
    assert_true(holds(f, 99));
    assert_int_equal(ask(f, "select count(*) from kernel"), 2);
    assert_int_equal(ask(f, "select count(*) from pragma_integrity_check"
                            " where integrity_check = 'ok'"),
                     1);
}

TEST_F(store, a_damaged_replacement_file_is_replaced)
{
    store_one(f, 1);
    fs_empty_directory(f->directory);
    KILN_AUTO(fd) int fd = open(f->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(fs_write_all(fd, bytes_of_text("not a database at all"), &f->err), KILN_OK);

    store_one(f, 2);

    assert_true(kernel_store_take_notice(f->store, f->notice));
    assert_says(f->notice, "was damaged");
    assert_true(holds(f, 2));
}

TEST_F(store, a_directory_that_cannot_be_recreated_is_tried_again_at_each_write)
{
    store_one(f, 1);
    fs_remove_tree(AT_FDCWD, f->directory);
    fclose(fopen(f->directory, "w"));

    assert_int_not_equal(put(f, (struct kernel){ .number = 2, .size = 100 }), KILN_OK);
    assert_says(f->err.text, f->directory);
    assert_says(f->err.text, "--cache-dir");
    assert_false(holds(f, 1));
    assert_int_equal(unlink(f->directory), 0);
    store_one(f, 2);

    assert_true(noticed(f, "removed"));
    assert_true(holds(f, 2));
}

static enum kiln_code open_second(struct fixture *f, struct kernel_store **ret_store)
{
    struct kernel_store_options options = {
        .directory = f->directory, .limit_bytes = ROOMY, .readers = 1, .allow_network_fs = true
    };
    return kernel_store_open(&options, ret_store, f->notice, &f->err);
}

TEST_F(store, a_second_daemon_is_refused_with_the_pid_of_the_first)
{
    struct kernel_store *second = NULL;
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %d ", (int)getpid());

    assert_int_equal(open_second(f, &second), KILN_BUSY);

    assert_says(f->err.text, pid);
    assert_says(f->err.text, f->directory);
    assert_says(f->err.text, "--cache-dir");
    store_one(f, 1);
    assert_true(holds(f, 1));
    close_store(f);
    assert_int_equal(open_second(f, &second), KILN_OK);
    kernel_store_destroy(second);
}

TEST_F(store, a_removed_store_that_another_daemon_recreated_is_not_reopened)
{
    struct kernel_store *second = NULL;
    store_one(f, 1);
    fs_remove_tree(AT_FDCWD, f->directory);
    assert_int_equal(open_second(f, &second), KILN_OK);

    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 100 }), KILN_BUSY);

    kernel_store_destroy(second);
    store_one(f, 2);
    assert_true(holds(f, 2));
}

static bool reopen_roomy(void *fixture) { return reopen(fixture, ROOMY) == KILN_OK; }

TEST_F(store, the_lock_does_not_outlive_its_process)
{
    struct kernel_store *second = NULL;
    close_store(f);
    assert_true(run_in_child(reopen_roomy, f));

    assert_int_equal(open_second(f, &second), KILN_OK);

    kernel_store_destroy(second);
}

TEST_F(store, child_processes_do_not_inherit_the_lock)
{
    unsigned locks = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        char target[256] = { 0 };
        if (readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1) <= 0 ||
            strncmp(target, f->directory, strlen(f->directory)) != 0 ||
            !strstr(target, "kilnd.lock"))
            continue;
        locks++;
        assert_true(fcntl((int)strtol(e->d_name, NULL, 10), F_GETFD) & FD_CLOEXEC);
    }
    closedir(dir);
    assert_int_equal(locks, 1);
}

TEST_F(store, a_directory_that_may_not_be_written_to_is_refused_with_what_to_set)
{
    close_store(f);
    NEED_ROOT();
    fs_empty_directory(f->directory);
    assert_int_equal(chmod(f->directory, 0755), 0);
    assert_int_equal(seteuid(65534), 0);

    enum kiln_code rc = reopen(f, ROOMY);

    assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, KILN_DENIED);
    assert_says(f->err.text, "Permission denied");
    assert_says(f->err.text, "XDG_CACHE_HOME");
}

TEST_F(store, a_store_that_others_may_write_to_is_refused_with_advice)
{
    static const mode_t directories[] = { 0770, 0702, 01777, 0720 };
    static const mode_t plain[] = { 0620, 0602, 0666 };
    close_store(f);
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        assert_int_equal(chmod(f->directory, directories[i]), 0);
        assert_int_equal(reopen(f, ROOMY), KILN_DENIED);
        assert_says(f->err.text, "cache directory");
        assert_says(f->err.text, f->directory);
        assert_says(f->err.text, "chmod go-w");
        assert_says(f->err.text, "--cache-dir");
    }
    assert_int_equal(chmod(f->directory, 0755), 0);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        assert_int_equal(chmod(f->file, plain[i]), 0);
        assert_int_equal(reopen(f, ROOMY), KILN_DENIED);

        assert_says(f->err.text, f->file);
        assert_says(f->err.text, "chmod go-w");
    }
    assert_int_equal(chmod(f->file, 0644), 0);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
}

TEST_F(store, a_store_of_another_owner_is_refused_with_advice)
{
    close_store(f);
    NEED_ROOT();
    assert_int_equal(chown(f->directory, 1234, 0), 0);
    assert_int_equal(reopen(f, ROOMY), KILN_DENIED);
    assert_says(f->err.text, "cache directory");
    assert_says(f->err.text, "user 1234");

    assert_int_equal(chown(f->directory, 0, 0) || chown(f->file, 1234, 0), 0);
    assert_int_equal(reopen(f, ROOMY), KILN_DENIED);
    assert_says(f->err.text, f->file);
    assert_says(f->err.text, "user 1234");

    assert_int_equal(chown(f->file, 0, 0), 0);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
}
