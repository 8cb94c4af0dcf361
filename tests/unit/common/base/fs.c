/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"

#include "tests/support/child.h"
#include "tests/unit/common/base/fs_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

TEST_F(directory, removing_a_tree_follows_no_links)
{
    char tree[128], deep[192], link[192], kept[128];
    snprintf(tree, sizeof(tree), "%s/tree", f->directory);
    snprintf(deep, sizeof(deep), "%s/a/b", tree);
    snprintf(link, sizeof(link), "%s/a/link", tree);
    snprintf(kept, sizeof(kept), "%s/file", f->directory);
    must(fs_make_directories(deep, &f->err), f->err);
    close(open(kept, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(symlink("../..", link), 0);
    assert_int_equal(chmod(deep, 0), 0);

    must(fs_empty(tree, &f->err), f->err);

    assert_int_equal(access(tree, F_OK), 0);
    assert_int_equal(rmdir(tree), 0);
    must(fs_make_directories(deep, &f->err), f->err);
    assert_int_equal(symlink("../..", link), 0);
    fs_remove_tree(AT_FDCWD, tree);
    assert_int_not_equal(access(tree, F_OK), 0);
    assert_int_equal(access(kept, F_OK), 0);
}

/* error of unlinkat(2) for an entry with the name "stays"; -1 means that the call succeeds */
static int refused = -1;

WRAP(int, unlinkat, int parent, const char *name, int flags)
{
    if (refused < 0 || strcmp(name, "stays") != 0)
        return __real_unlinkat(parent, name, flags);
    errno = refused;
    return -1;
}

static void make_nested_directories(struct fixture *f, const char *name, unsigned levels)
{
    int at = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < levels; i++) {
        const char *next = i ? "d" : name;
        assert_int_equal(mkdirat(at, next, 0700), 0);
        int below = openat(at, next, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(fchmodat(at, next, i + 1 < levels ? 0700 : 0, 0), 0);
        close(at);
        at = below;
    }
    close(at);
}

static bool digs_and_removes(struct fixture *f, unsigned levels)
{
    char tree[128];
    snprintf(tree, sizeof(tree), "%s/a", f->directory);
    make_nested_directories(f, "a", levels);
    if (levels > 1)
        chmod(tree, levels < 10 ? 0 : 0700);
    return fs_remove(AT_FDCWD, tree, &f->err) == KILN_OK && access(tree, F_OK) != 0;
}

/* Root ignores permissions, so a child runs as another user. */
TEST_F(directory, deep_directories_without_permissions_are_removed)
{
    const uid_t nobody = 65534;
    assert_int_equal(chmod(f->directory, 0777), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0))
            _exit(2);
        /* 1000 levels: more than the limit of open descriptors */
        _exit(digs_and_removes(f, 1000) && digs_and_removes(f, 3) ? 0 : 1);
    }
    assert_int_equal(await_child(pid), 0);
}

TEST_F(directory, a_deep_directory_is_removed_although_its_new_name_is_taken)
{
    char tree[128], taken[192];
    snprintf(tree, sizeof(tree), "%s/a", f->directory);
    make_nested_directories(f, "a", 100);
    snprintf(taken, sizeof(taken), "%s/.lifted-0", tree);
    assert_int_equal(mkdir(taken, 0700), 0);
    must(fs_remove(AT_FDCWD, tree, &f->err), f->err);
    assert_int_not_equal(access(tree, F_OK), 0);
}

/* chattr +i, for example, makes a file that nobody can remove. */
TEST_F(directory, a_file_that_cannot_be_removed_is_named_and_the_others_are_removed)
{
    char tree[128], stays[192], goes[192];
    snprintf(tree, sizeof(tree), "%s/a", f->directory);
    snprintf(stays, sizeof(stays), "%s/b/stays", tree);
    snprintf(goes, sizeof(goes), "%s/b/z/goes", tree);
    must(fs_make_directories(stays, &f->err), f->err);
    must(fs_make_directories(goes, &f->err), f->err);
    static const int reasons[] = { EPERM, EACCES, EROFS, EBUSY };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        refused = reasons[i];
        f->err = KILN_ERR_INIT;
        enum kiln_code rc = fs_remove(AT_FDCWD, tree, &f->err);
        refused = -1;
        assert_int_not_equal(rc, KILN_OK);
        assert_says(f->err.text, "'stays'");
        assert_says(f->err.text, strerror(reasons[i]));
        assert_says(f->err.text, tree);
        assert_int_equal(access(stays, F_OK), 0);
        assert_int_not_equal(access(goes, F_OK), 0);
    }
    must(fs_remove(AT_FDCWD, tree, &f->err), f->err);
}

TEST_F(directory, more_files_than_the_limit_are_removed_in_several_calls)
{
    char tree[128], path[192];
    snprintf(tree, sizeof(tree), "%s/a", f->directory);
    must(fs_make_directories(tree, &f->err), f->err);
    for (unsigned i = 0; i < 25; i++) {
        snprintf(path, sizeof(path), "%s/file-%u", tree, i);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    for (unsigned i = 0; i < 2; i++) {
        f->err = KILN_ERR_INIT;
        assert_int_equal(fs_remove_some(AT_FDCWD, tree, 10, &f->err), KILN_FULL);
        assert_says(f->err.text, "10 files");
    }
    must(fs_remove_some(AT_FDCWD, tree, 10, &f->err), f->err);
    assert_int_not_equal(access(tree, F_OK), 0);
}

TEST_F(directory, removing_a_missing_file_succeeds)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/a", f->directory);
    must(fs_remove(AT_FDCWD, path, &f->err), f->err);
    must(fs_empty(path, &f->err), f->err);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_not_equal(fs_empty(path, &f->err), KILN_OK);
    assert_says(f->err.text, "directory");
    must(fs_remove(AT_FDCWD, path, &f->err), f->err);
}

TEST_F(directory, missing_parent_directories_are_made_private)
{
    char path[128];
    struct stat seen;
    snprintf(path, sizeof(path), "%s/a/b/c", f->directory);
    must(fs_make_directories(path, &f->err), f->err);
    must(fs_make_directories(path, &f->err), f->err);
    assert_int_equal(stat(path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
}

TEST_F(directory, made_directories_get_the_mode_and_existing_ones_keep_theirs)
{
    char path[128];
    struct stat made, between, before;
    snprintf(path, sizeof(path), "%s/a", f->path);
    must(fs_make_directories_mode(path, 0711, &f->err), f->err);
    assert_int_equal(stat(path, &made), 0);
    assert_int_equal(stat(f->path, &between), 0);
    assert_int_equal(stat(f->directory, &before), 0);
    assert_int_equal(made.st_mode & 0777, 0711);
    assert_int_equal(between.st_mode & 0777, 0711);
    assert_int_equal(before.st_mode & 0777, 0700);
    must(fs_make_directories_mode(path, 0700, &f->err), f->err);
    assert_int_equal(stat(f->path, &between), 0);
    assert_int_equal(between.st_mode & 0777, 0711);
}

TEST_F(directory, a_path_is_cut_to_its_deepest_existing_part)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/absent/file", f->path);
    assert_int_equal(fs_cut_to_existing(path), 0);
    assert_string_equal(path, f->directory);
    assert_int_equal(symlink("/nowhere", f->path), 0);
    snprintf(path, sizeof(path), "%s", f->path);
    assert_int_equal(fs_cut_to_existing(path), 0);
    assert_string_equal(path, f->path); /* a dangling link counts as existing */
    strcpy(path, "absent/directory");
    assert_int_equal(fs_cut_to_existing(path), 0);
    assert_string_equal(path, ".");
    strcpy(path, "/dev/null/file");
    assert_int_equal(fs_cut_to_existing(path), -1);
    assert_int_equal(errno, ENOTDIR);
}

TEST_F(directory, a_second_lock_is_refused_and_names_the_holder)
{
    struct fs_lock first, second;
    const int flags = O_RDWR | O_CREAT;
    assert_int_equal(fs_lock_at(AT_FDCWD, f->path, O_RDONLY, &first, &f->err), KILN_NOT_FOUND);
    must(fs_lock_at(AT_FDCWD, f->path, flags, &first, &f->err), f->err);
    assert_int_equal(fs_lock_at(AT_FDCWD, f->path, flags, &second, &f->err), KILN_BUSY);
    assert_int_equal(second.holder, 0); /* the lock file has no pid yet */
    fs_write_pid(first.fd);
    assert_int_equal(fs_lock_at(AT_FDCWD, f->path, flags, &second, &f->err), KILN_BUSY);
    assert_int_equal(second.holder, getpid());
    assert_int_equal(second.fd, -1);
    assert_says(f->err.text, f->path);
    close(first.fd);
    must(fs_lock_at(AT_FDCWD, f->path, flags, &second, &f->err), f->err);
    assert_true(fcntl(second.fd, F_GETFD) & FD_CLOEXEC);
    close(second.fd);
}

TEST_F(directory, a_file_in_the_way_of_a_directory_is_named)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/file", f->directory);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    must(fs_write_all(fd, bytes_of_text("content"), &f->err), f->err);
    close(fd);
    assert_int_equal(fs_make_directories(path, &f->err), KILN_INVALID);
    assert_says(f->err.text, "/file'");

    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    must(fs_read_file(path, 100, &b, &f->err), f->err);
    assert_true(bytes_equal_text(buffer_view(&b), "content"));
}

TEST_F(directory, reading_a_file_stops_at_the_size_limit)
{
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    assert_int_equal(fs_read_file("/proc/self/maps", 10, &b, &f->err), KILN_FULL);
    assert_says(f->err.text, "10 bytes");
    assert_int_equal(fs_read_file("/does/not/exist", 10, &b, &f->err), KILN_NOT_FOUND);
    assert_says(f->err.text, "/does/not/exist");
}

TEST_F(directory, a_sealed_memory_file_can_be_neither_written_nor_grown)
{
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

TEST_F(directory, a_memory_file_mapped_for_writing_cannot_be_sealed)
{
    int fd = -1;
    must(fs_memfd("test", &fd, &f->err), f->err);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(fs_seal(fd, &f->err), KILN_BUSY);
    munmap(map, 4096);
    close(fd);
}

TEST_F(directory, network_filesystems_are_recognised_by_their_magic_number)
{
    assert_string_equal(fs_network_name(0x6969), "nfs");
    assert_string_equal(fs_network_name(0x0bd00bd0), "lustre");
    assert_string_equal(fs_network_name((long)0xfffffffffe534d42ull),
                        "smb2");          /* a sign-extended f_type */
    assert_null(fs_network_name(0xef53)); /* ext4 */
    must(fs_refuse_network(f->directory, "cache_dir", &f->err), f->err);
}

/* FUSE type that the fake mount table states for /tmp; NULL means that nothing is faked */
static const char *mount_type;
static enum kiln_code mounts_result;

WRAP(int, statfs, const char *path, struct statfs *buf)
{
    int rc = __real_statfs(path, buf);
    if (rc == 0 && mount_type)
        buf->f_type = 0x65735546;
    return rc;
}

WRAP(enum kiln_code, fs_read_file, const char *path, size_t limit, struct buffer *ret_content,
     struct kiln_err *err)
{
    char text[512];
    struct stat seen;
    if (strcmp(path, "/proc/self/mountinfo") != 0)
        return __real_fs_read_file(path, limit, ret_content, err);
    assert_int_equal(stat("/tmp", &seen), 0);
    snprintf(text, sizeof(text),
             "no mount at all\n22 1 0:0 / / rw - ext4 /dev/sda1 rw\n\n"
             "36 35 %u:%u /x /a\\040-\\040b rw,relatime shared:1 - %s ada@host: rw\n7 7 0:",
             major(seen.st_dev), minor(seen.st_dev), mount_type);
    buffer_put(ret_content, text, strlen(text));
    return mounts_result;
}

static struct fs_place look_as(const char *type)
{
    struct fs_place place;
    mount_type = type;
    assert_int_equal(fs_look("/tmp", &place), 0);
    mount_type = NULL;
    return place;
}

TEST_F(directory, network_filesystems_in_fuse_are_recognised_by_their_mount)
{
    static const char *const networks[] = { "fuse.sshfs",  "fuse.glusterfs", "fuse.ceph-fuse",
                                            "fuse.s3fs",   "fuse.juicefs",   "fuse.beegfs",
                                            "fuse.rclone", "fuse.gcsfuse" };
    for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
        struct fs_place place = look_as(networks[i]);
        assert_true(place.network);
        assert_false(place.unknown_fuse);
        assert_string_equal(place.type, networks[i]);
    }
    mount_type = "fuse.sshfs";
    assert_int_equal(fs_refuse_network("/tmp", "cache_dir", &f->err), KILN_UNSUPPORTED);
    mount_type = NULL;
    assert_says(f->err.text, "(fuse.sshfs)");
    assert_says(f->err.text, "cache_dir");
}

TEST_F(directory, an_unknown_fuse_filesystem_is_reported_by_its_type)
{
    struct fs_place place = look_as("fuse.\033[2J");
    assert_true(place.unknown_fuse);
    assert_false(place.network);
    assert_string_equal(place.type, "fuse.?[2J");
    place = look_as("fuse.of_a_name_that_is_longer_than_anybody_ever_gave_one");
    assert_true(place.unknown_fuse);
    assert_int_equal(strlen(place.type), FS_TYPE_MAX - 1);
    mounts_result = KILN_FULL;
    place = look_as("fuse.sshfs");
    mounts_result = KILN_OK;
    assert_true(place.unknown_fuse);
    assert_string_equal(place.type, "fuse");
    mount_type = "fuse.unheard-of";
    must(fs_refuse_network("/tmp", "cache_dir", &f->err),
         f->err); /* an unknown FUSE type may be local */
    mount_type = NULL;
}

TEST(directory, local_filesystems_in_fuse_are_accepted)
{
    struct fs_place place = look_as("fuseblk");
    assert_false(place.network || place.unknown_fuse);
    place = look_as("fuse.fuse-overlayfs");
    assert_false(place.network || place.unknown_fuse);
    assert_int_equal(fs_look("/absent/directory", &place), -1);
}

/* The next |interruptions| reads are interrupted. Each read returns at most |read_max| bytes; 0
 * means no limit. */
static unsigned interruptions;
static size_t read_max;

WRAP(ssize_t, pread, int fd, void *to, size_t size, off_t at)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return __real_pread(fd, to, read_max && size > read_max ? read_max : size, at);
}

TEST_F(directory, a_file_is_read_to_its_end_despite_short_and_interrupted_reads)
{
    char path[128], got[16] = "";
    snprintf(path, sizeof(path), "%s/file", f->directory);
    must(fs_replace_file(path, bytes_of_text("0123456789"), 0600, &f->err), f->err);
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    interruptions = 2;
    read_max = 3;
    assert_int_equal(fs_read_at(fd, got, 8, 1), 8);
    assert_string_equal(got, "12345678");
    assert_int_equal(fs_read_at(fd, got, sizeof(got), 6), 4);
    assert_int_equal(fs_read_at(fd, got, sizeof(got), 10), 0);
    read_max = 0;
    assert_int_equal(fs_read_at(-1, got, sizeof(got), 0), -1);
}
