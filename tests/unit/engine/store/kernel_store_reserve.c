/* SPDX-License-Identifier: MIT */

/* A disk with nothing free: what is kept for it lets gc and clear make room, and a kill while they
 * do so leaves a whole store. */
#include "store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DISK "size=24m,mode=0700"
#define LIMIT (64u << 20)
#define KERNELS 50u
#define KERNEL_BYTES 100000u
#define TO (1u << 20)

static unsigned writes_left; /* to the kill; 0: there is none */

/* Takes libc's place for SQLite. */
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's name is reserved
__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *data, size_t size,
                                                        off_t at)
{
    if (writes_left > 0 && --writes_left == 0)
        raise(SIGKILL);
    return syscall(SYS_pwrite64, fd, data, size, at);
}

static int setup(void **state)
{
    writes_left = 0;
    return fixture_setup(state);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    close_store(f);
    umount2(f->folder, MNT_DETACH);
    return fixture_teardown(state);
}

FIXTURE(kernel_store_reserve, setup, teardown);

/* A small disk under the store's folder, which this process and its children see, nobody else. */
static void mount_disk(struct fixture *f)
{
    close_store(f);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", f->folder, "tmpfs", 0, DISK) != 0) {
        print_message("SKIPPED: no filesystem can be mounted here\n");
        teardown((void **)&f);
        skip();
    }
    assert_int_equal(reopen(f, LIMIT), KILN_OK);
}

static uint64_t free_bytes(const struct fixture *f)
{
    struct statvfs fs;
    assert_int_equal(statvfs(f->folder, &fs), 0);
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* What others do. */
static void fill_disk(struct fixture *f)
{
    static const char zeros[65536];
    char path[160];
    snprintf(path, sizeof(path), "%s/filler", f->folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    size_t step = sizeof(zeros);
    while (step > 0) {
        if (write(fd, zeros, step) < 0) {
            assert_int_equal(errno, ENOSPC);
            step /= 2;
        }
    }
    close(fd);
    assert_int_equal(free_bytes(f), 0);
}

static void store_all(struct fixture *f)
{
    for (unsigned i = 0; i < KERNELS; i++)
        stored(f, (struct kernel){ .number = i,
                                   .size = KERNEL_BYTES,
                                   .last_used = 1700000000 + i,
                                   .target = i % 2 ? "gfx90a" : "gfx942" });
}

static enum kiln_code collect(struct fixture *f, uint64_t to)
{
    const struct kernel_gc options = { .shrink = true, .to_bytes = to };
    struct kernel_gc_result result = { 0 };
    enum kiln_code rc = kernel_store_gc(f->store, &options, &result, &f->err);
    assert_true(rc || !result.missed);
    return rc;
}

static void expect_collected(struct fixture *f, uint64_t to)
{
    if (collect(f, to) != KILN_OK)
        fail_msg("%s", f->err.text);
    assert_true(taken(f) <= to);
}

static void expect_whole(struct fixture *f)
{
    assert_int_equal(files(f, "kernels.db.damaged-"), 0);
    assert_int_equal(ask(f, "select count(*) from pragma_integrity_check"
                            " where integrity_check = 'ok'"),
                     1);
    unsigned there = 0;
    for (unsigned i = 0; i < KERNELS; i++) {
        assert_false(is_damaged(f, i));
        there += holds(f, i);
    }
    assert_int_equal(there, usage(f).kernels);
}

TEST(kernel_store_reserve, a_reserve_is_kept_and_counted_where_the_cache_is_not_small)
{
    struct fixture *f = *state;
    assert_int_equal(reopen(f, LIMIT), KILN_OK);
    stored(f, (struct kernel){ .number = 1, .size = KERNEL_BYTES });
    uint64_t reserve = usage(f).taken_bytes - taken(f);
    assert_int_equal(files(f, "kernels.reserve"), 1);
    assert_in_range(reserve, 5000000, 5200000);

    assert_int_equal(reopen(f, 20u << 20), KILN_OK);
    stored(f, (struct kernel){ .number = 2, .size = KERNEL_BYTES });
    assert_in_range(usage(f).taken_bytes - taken(f), 1500000, 1700000);

    assert_int_equal(reopen(f, 8u << 20), KILN_OK);
    stored(f, (struct kernel){ .number = 3, .size = KERNEL_BYTES });
    assert_int_equal(files(f, "kernels.reserve"), 0);
}

TEST(kernel_store_reserve, the_limit_holds_with_the_reserve)
{
    struct fixture *f = *state;
    const uint64_t limit = 17u << 20;
    assert_int_equal(reopen(f, limit), KILN_OK);
    for (unsigned i = 0; i < 200; i++) {
        stored(f, (struct kernel){ .number = i, .size = KERNEL_BYTES });
        assert_true(usage(f).taken_bytes <= limit);
    }
    assert_int_equal(files(f, "kernels.reserve"), 1);
    assert_in_range(usage(f).taken_bytes, limit * 3 / 4, limit);
}

TEST(kernel_store_reserve, a_disk_without_room_to_spare_has_none)
{
    struct fixture *f = *state;
    mount_disk(f);
    fill_disk(f);
    assert_int_equal(truncate(f->file, 0), 0);
    char path[160];
    struct stat seen;
    snprintf(path, sizeof(path), "%s/filler", f->folder);
    assert_int_equal(stat(path, &seen), 0);
    assert_int_equal(truncate(path, seen.st_size - (8 << 20)), 0);

    assert_int_equal(reopen(f, LIMIT), KILN_OK);
    stored(f, (struct kernel){ .number = 1, .size = KERNEL_BYTES });

    assert_int_equal(files(f, "kernels.reserve"), 0);
    assert_true(free_bytes(f) > 6u << 20);
}

TEST(kernel_store_reserve, with_nothing_free_gc_and_clear_make_room_again_and_again)
{
    struct fixture *f = *state;
    uint64_t count = 0, bytes = 0;
    mount_disk(f);
    store_all(f);
    fill_disk(f);
    const struct digest key = key_of(0);
    assert_int_equal(put(f, (struct kernel){ .number = 999, .size = 4u << 20 }), KILN_FULL);

    expect_collected(f, 3u << 20);
    expect_whole(f);
    assert_true(holds(f, KERNELS - 1));
    assert_int_equal(files(f, "kernels.reserve"), 1);

    fill_disk(f);
    const struct kernel_filter some = { .target = "gfx90a" };
    assert_int_equal(kernel_store_clear(f->store, &some, false, &count, &bytes, &f->err), KILN_OK);
    assert_true(count > 10 && usage(f).kernels >= count - 1);
    expect_whole(f);
    assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_NOT_FOUND);
    stored(f, (struct kernel){ .number = 0, .size = KERNEL_BYTES });
}

TEST(kernel_store_reserve, gc_makes_room_after_a_start_on_a_full_disk)
{
    struct fixture *f = *state;
    mount_disk(f);
    store_all(f);
    close_store(f);
    fill_disk(f);
    assert_int_equal(reopen(f, LIMIT), KILN_OK);
    assert_non_null(strstr(f->notice, "not written to"));
    assert_true(holds(f, 3));

    expect_collected(f, TO);

    expect_whole(f);
    stored(f, (struct kernel){ .number = 500, .size = KERNEL_BYTES });
}

/* Returns whether it was killed. */
static bool collect_killed(struct fixture *f, unsigned writes)
{
    int status = 0;
    close_store(f);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (reopen(f, LIMIT) != KILN_OK)
            _exit(2);
        writes_left = writes;
        _exit(collect(f, TO) == KILN_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    assert_true(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return killed;
}

TEST(kernel_store_reserve, a_kill_while_room_is_made_leaves_a_whole_store)
{
    static const unsigned writes[] = { 1, 3, 20, 150, 700 };
    struct fixture *f = *state;
    unsigned kills = 0;
    mount_disk(f);
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        store_all(f);
        fill_disk(f);

        kills += collect_killed(f, writes[i]);

        assert_int_equal(reopen(f, LIMIT), KILN_OK);
        expect_whole(f);
        expect_collected(f, TO);
        char path[160];
        snprintf(path, sizeof(path), "%s/filler", f->folder);
        assert_int_equal(unlink(path), 0);
    }
    assert_true(kills > 2);
}
