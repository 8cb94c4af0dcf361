/* SPDX-License-Identifier: MIT */
#include "common/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char folder[64];
    struct kiln_err err;
};

static int make_folder(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .folder = "/tmp/kiln-test-fs-XXXXXX", .err = KILN_ERR_INIT };
    assert_non_null(mkdtemp(f.folder));
    *state = &f;
    return 0;
}

static int remove_folder(void **state)
{
    struct fixture *f = *state;
    char path[128];
    static const char *const left[] = { "a/b/c", "a/b", "a", "file" };
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", f->folder, left[i]);
        remove(path);
    }
    return rmdir(f->folder);
}

static void removes_a_tree_and_follows_no_link(void **state)
{
    struct fixture *f = *state;
    char tree[128], deep[192], link[192], kept[128];
    snprintf(tree, sizeof(tree), "%s/tree", f->folder);
    snprintf(deep, sizeof(deep), "%s/a/b", tree);
    snprintf(link, sizeof(link), "%s/a/link", tree);
    snprintf(kept, sizeof(kept), "%s/file", f->folder);
    must(fs_make_folders(deep, &f->err), f->err);
    close(open(kept, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(symlink("../..", link), 0);
    assert_int_equal(chmod(deep, 0), 0);

    fs_empty_folder(tree);

    assert_int_equal(access(tree, F_OK), 0);
    assert_int_equal(rmdir(tree), 0);
    must(fs_make_folders(deep, &f->err), f->err);
    assert_int_equal(symlink("../..", link), 0);
    fs_remove_tree(AT_FDCWD, tree);
    assert_int_not_equal(access(tree, F_OK), 0);
    assert_int_equal(access(kept, F_OK), 0);
}

static void makes_missing_parents_private(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct stat seen;
    snprintf(path, sizeof(path), "%s/a/b/c", f->folder);
    must(fs_make_folders(path, &f->err), f->err);
    must(fs_make_folders(path, &f->err), f->err); /* again: nothing to do */
    assert_int_equal(stat(path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
}

static void a_file_in_the_way_of_a_folder_is_named(void **state)
{
    struct fixture *f = *state;
    char path[128];
    snprintf(path, sizeof(path), "%s/file", f->folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    must(fs_write_all(fd, bytes_of_text("content"), &f->err), f->err);
    close(fd);
    assert_int_equal(fs_make_folders(path, &f->err), KILN_INVALID);
    assert_says(f->err.text, "/file' is not a folder");

    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    must(fs_read_file(path, 100, &b, &f->err), f->err);
    assert_true(bytes_equal_text(buffer_view(&b), "content"));
}

static void reading_stops_at_the_limit(void **state)
{
    struct fixture *f = *state;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    assert_int_equal(fs_read_file("/proc/self/maps", 10, &b, &f->err), KILN_FULL);
    assert_says(f->err.text, "exceeds 10 bytes");
    assert_int_equal(fs_read_file("/does/not/exist", 10, &b, &f->err), KILN_NOT_FOUND);
    assert_says(f->err.text, "/does/not/exist");
}

static void a_sealed_memfd_can_be_neither_written_nor_grown(void **state)
{
    struct fixture *f = *state;
    int fd = -1;
    must(fs_memfd("test", &fd, &f->err), f->err);
    must(fs_write_all(fd, bytes_of_text("object"), &f->err), f->err);
    assert_false(fs_is_sealed(fd));
    must(fs_seal(fd, &f->err), f->err);
    assert_true(fs_is_sealed(fd));
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 100), -1);
    close(fd);
}

static void a_memfd_mapped_for_writing_is_not_sealed(void **state)
{
    struct fixture *f = *state;
    int fd = -1;
    must(fs_memfd("test", &fd, &f->err), f->err);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(fs_seal(fd, &f->err), KILN_BUSY);
    munmap(map, 4096);
    close(fd);
}

static void network_filesystems_are_known_by_their_magic(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(fs_network_name(0x6969), "nfs");
    assert_string_equal(fs_network_name(0x0bd00bd0), "lustre");
    assert_string_equal(fs_network_name((long)0xfffffffffe534d42ull), "smb2"); /* sign-extended */
    assert_null(fs_network_name(0xef53));                                      /* ext4 */
    must(fs_refuse_network(f->folder, "cache_dir", &f->err), f->err);
}

#define FS_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FS_TEST(removes_a_tree_and_follows_no_link),
        FS_TEST(makes_missing_parents_private),
        FS_TEST(a_file_in_the_way_of_a_folder_is_named),
        FS_TEST(reading_stops_at_the_limit),
        FS_TEST(a_sealed_memfd_can_be_neither_written_nor_grown),
        FS_TEST(a_memfd_mapped_for_writing_is_not_sealed),
        FS_TEST(network_filesystems_are_known_by_their_magic),
    };
    return cmocka_run_group_tests_name("fs", tests, NULL, NULL);
}
