/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/base/fs.h"
#include "engine/service/requests/exported_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#define ANN 1000
#define BOB 1001

struct fixture {
    const char *directory;
    char path[96];
    struct exported_files *exported;
    struct object *objects[EXPORTED_FILES_MAX_UID];
    size_t count;
    struct kiln_err err;
};

static uint64_t fake_blocks, fake_free; /* what statvfs(3) reports; 0 means the real values */

WRAP(int, statvfs, const char *path, struct statvfs *disk)
{
    int rc = __real_statvfs(path, disk);
    if (fake_blocks) {
        disk->f_frsize = 4096;
        disk->f_blocks = fake_blocks / 4096;
        disk->f_bavail = fake_free / 4096;
    }
    return rc;
}

static bool cannot_watch;
static uint64_t later_ns; /* time since the clock's start; only the test advances it */

WRAP(int, inotify_add_watch, int fd, const char *path, uint32_t mask)
{
    return cannot_watch ? -1 : __real_inotify_add_watch(fd, path, mask);
}

WRAP(uint64_t, clock_monotonic_ns, void) { return 1 + later_ns; }

SET_UP(setup)
{
    cannot_watch = false;
    later_ns = 0;
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/file", f->directory);
    fake_blocks = 100ull << 30;
    fake_free = 50ull << 30;
    must(exported_files_create(&f->exported, &f->err), f->err);
}

static void close_all(struct fixture *f)
{
    while (f->count > 0)
        object_unref(f->objects[--f->count]);
}

static unsigned count_swept(struct fixture *f)
{
    exported_files_close(f->exported);
    exported_files_sweep(f->exported);
    return exported_files_count(f->exported);
}

TEAR_DOWN(teardown)
{
    close_all(f);
    exported_files_destroy(f->exported);
}

FIXTURE(exported_files, setup, teardown);

static const struct export_receiver ann = { .uid = ANN }, bob = { .uid = BOB },
                                    admin = { .uid = ANN, .is_admin = true };

static void export_file(struct fixture *f, const struct export_receiver *to, off_t size)
{
    int fd = open(f->path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
    struct export_space space = { .to = *to };
    must(exported_files_open(f->exported, f->path, &space, &f->objects[f->count++], &f->err),
         f->err);
    unlink(f->path);
}

static enum kiln_code check_export(struct fixture *f, const struct export_receiver *to,
                                   uint64_t size)
{
    struct export_space space = { .to = *to };
    enum kiln_code rc = exported_files_reserve(f->exported, f->directory, size, &space, &f->err);
    export_space_release(&space);
    return rc;
}

TEST_F(exported_files, an_exported_file_counts_until_its_last_descriptor_closes)
{
    export_file(f, &ann, 4096);
    int kept = dup(f->objects[0]->fd);
    close_all(f);
    assert_int_equal(count_swept(f), 1);
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, kept, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    close(kept);
    assert_int_equal(count_swept(f), 1);

    munmap(mapped, 4096);
    assert_int_equal(count_swept(f), 0);
}

/* Closing the file frees its space, which takes long. The sweep must leave that to
 * exported_files_close. */
TEST_F(exported_files, dropping_an_exported_object_does_not_close_its_file)
{
    export_file(f, &ann, 4096);
    int fd = f->objects[0]->fd;
    close_all(f);
    exported_files_sweep(f->exported);
    assert_int_not_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(exported_files_count(f->exported), 1);
    exported_files_close(f->exported);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

TEST_F(exported_files, an_exported_file_that_is_only_opened_as_a_path_counts)
{
    char path[64];
    export_file(f, &ann, 4096);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", f->objects[0]->fd);
    int kept = open(path, O_PATH | O_CLOEXEC);
    assert_true(kept >= 0);
    close_all(f);
    assert_int_equal(count_swept(f), 1);

    close(kept);
    assert_int_equal(count_swept(f), 0);
}

TEST_F(exported_files, a_file_that_cannot_be_watched_counts_for_ten_minutes)
{
    cannot_watch = true;
    export_file(f, &ann, 4096);
    close_all(f);
    later_ns = 598000000000u;
    assert_int_equal(count_swept(f), 1);
    later_ns = 602000000000u;
    assert_int_equal(count_swept(f), 0);
}

TEST_F(exported_files, a_user_with_many_open_exports_is_refused_and_others_are_not)
{
    for (unsigned i = 0; i < EXPORTED_FILES_MAX_UID; i++)
        export_file(f, &ann, 1);
    assert_int_equal(check_export(f, &ann, 0), KILN_BUSY);
    assert_says(f->err.text, "128 exported");
    assert_int_equal(check_export(f, &bob, 0), KILN_OK);
    assert_int_equal(check_export(f, &admin, 0), KILN_OK);

    object_unref(f->objects[--f->count]);

    assert_int_equal(check_export(f, &ann, 0), KILN_OK);
}

TEST_F(exported_files, a_user_with_large_open_exports_is_refused_and_others_are_not)
{
    export_file(f, &ann, 7ll << 29);
    export_file(f, &ann, 7ll << 29);
    assert_int_equal(check_export(f, &ann, 1ull << 30), KILN_OK);
    assert_int_equal(check_export(f, &ann, (1ull << 30) + 1), KILN_BUSY);
    assert_says(f->err.text, "7.0 GiB");
    assert_int_equal(check_export(f, &bob, (1ull << 30) + 1), KILN_OK);
    assert_int_equal(check_export(f, &admin, (1ull << 30) + 1), KILN_OK);

    close_all(f);

    assert_int_equal(check_export(f, &ann, (1ull << 30) + 1), KILN_OK);
}

static enum kiln_code reserve(struct fixture *f, struct export_space *space, uint64_t size)
{
    f->err = KILN_ERR_INIT;
    return exported_files_reserve(f->exported, f->directory, size, space, &f->err);
}

TEST_F(exported_files, exports_that_grow_at_the_same_time_share_their_users_limit)
{
    struct export_space first = { .to = ann }, second = { .to = ann }, others = { .to = bob };
    must(reserve(f, &first, 5ull << 30), f->err);
    assert_int_equal(reserve(f, &second, (3ull << 30) + 1), KILN_BUSY);
    must(reserve(f, &second, 3ull << 30), f->err);
    /* this reservation replaces the first one, so 5 GiB are not counted twice */
    must(reserve(f, &first, 5ull << 30), f->err);
    assert_int_equal(reserve(f, &first, (5ull << 30) + 1), KILN_BUSY);
    must(reserve(f, &others, 8ull << 30), f->err);

    export_space_release(&second);

    must(reserve(f, &first, 8ull << 30), f->err);
    export_space_release(&first);
    export_space_release(&others);
}

TEST_F(exported_files, a_reservation_ends_when_its_file_is_exported)
{
    struct export_space space = { .to = ann };
    must(reserve(f, &space, 8ull << 30), f->err);
    int fd = open(f->path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    close(fd);
    must(exported_files_open(f->exported, f->path, &space, &f->objects[f->count++], &f->err),
         f->err);
    assert_int_equal(check_export(f, &ann, (8ull << 30) - (1 << 20)), KILN_OK);
    assert_int_equal(check_export(f, &ann, (8ull << 30) - (1 << 20) + 1), KILN_BUSY);
}

TEST_F(exported_files, nothing_is_exported_onto_a_nearly_full_disk)
{
    fake_free = (1ull << 30) - 4096;
    assert_int_equal(check_export(f, &ann, 0), KILN_FULL);
    assert_says(f->err.text, "1023 MiB");
    assert_int_equal(check_export(f, &admin, 0), KILN_FULL);
    fake_free = 1ull << 30;
    assert_int_equal(check_export(f, &ann, 0), KILN_OK);
    fake_blocks = 1ull << 30; /* on a small disk, a sixteenth of the space must stay free */
    fake_free = 64u << 20;
    assert_int_equal(check_export(f, &ann, 0), KILN_OK);
    fake_free -= 4096;
    assert_int_equal(check_export(f, &ann, 0), KILN_FULL);
}

TEST_F(exported_files, a_missing_exported_file_is_not_counted)
{
    struct object *object = NULL;
    struct export_space space = { .to = ann };
    assert_int_equal(exported_files_open(f->exported, f->path, &space, &object, &f->err),
                     KILN_NOT_FOUND);
    assert_null(object);
    assert_int_equal(exported_files_count(f->exported), 0);
}
