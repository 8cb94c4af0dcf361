/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"
#include "tests/support/child.h"

#include "common/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TMPFS "size=6m,mode=0700"

static struct {
    char directory[128];
    int fails_with; /* errno of writes; 0: writes work */
    unsigned failed;
} disk;

static uint64_t now_ns = 1000000000;

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return now_ns; }

static bool is_on_the_disk(int fd)
{
    char link[64], path[256] = { 0 };
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof(path) - 1) > 0 &&
           strncmp(path, disk.directory, strlen(disk.directory)) == 0;
}

static bool fails(int fd)
{
    if (!disk.fails_with || !is_on_the_disk(fd))
        return false;
    disk.failed++;
    errno = disk.fails_with;
    return true;
}

/* These replace libc's functions, also for SQLite. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *data, size_t size,
                                                        off_t at)
{
    return fails(fd) ? -1 : (ssize_t)syscall(SYS_pwrite64, fd, data, size, at);
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t size)
{
    return fails(fd) ? -1 : (ssize_t)syscall(SYS_write, fd, data, size);
}

__attribute__((visibility("default"))) int ftruncate64(int fd, off_t size)
{
    return fails(fd) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

/* Path of a read-only mount. The next open of kernels.db that fails makes the mount writable. NULL
 * means that no open does. */
static const char *becomes_writable;

__attribute__((visibility("default"))) int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    unsigned mode = va_arg(rest, unsigned); /* meaningless if the caller passed none */
    va_end(rest);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    int reason = errno;
    if (fd < 0 && becomes_writable && strstr(path, "kernels.db")) {
        mount("kiln-test", becomes_writable, "tmpfs", MS_REMOUNT, TMPFS);
        becomes_writable = NULL;
    }
    errno = reason;
    return fd;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

static void break_disk(const struct fixture *f, int with)
{
    snprintf(disk.directory, sizeof(disk.directory), "%s", f->directory);
    disk.fails_with = with;
    disk.failed = 0;
}

static void pass(unsigned milliseconds) { now_ns += milliseconds * 1000000ull; }

SET_UP(setup)
{
    disk.fails_with = sync_fails_with = 0;
    open_store(f);
}

TEAR_DOWN(teardown) { disk.fails_with = sync_fails_with = 0; }

FIXTURE(kernel_store_health, setup, teardown);

static struct kernel_health health(struct fixture *f)
{
    struct kernel_health h;
    kernel_store_health(f->store, &h);
    return h;
}

static bool noticed(struct fixture *f, const char *words)
{
    return kernel_store_take_notice(f->store, f->notice) == KERNEL_NOTICE_RECOVERED &&
           strstr(f->notice, words);
}

static const struct {
    int errnum;
    enum kiln_code code;
    enum kernel_health_state state;
    const char *name, *words;
} faults[] = {
    { EIO, KILN_IO, KERNEL_HEALTH_IO_ERROR, "io-error", "the disk" },
    { ENOSPC, KILN_FULL, KERNEL_HEALTH_FULL, "full", "free disk" },
    { EDQUOT, KILN_FULL, KERNEL_HEALTH_FULL, "full", "free disk" },
    { EFBIG, KILN_FULL, KERNEL_HEALTH_FULL, "full", "free disk" },
    { EROFS, KILN_DENIED, KERNEL_HEALTH_READ_ONLY, "read-only", "permissions" },
};

TEST(kernel_store_health, a_write_that_fails_is_reported_once_and_reading_goes_on)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        store_one(f, 1);
        break_disk(f, faults[i].errnum);

        assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 5000 }), faults[i].code);
        assert_says(f->err.text, faults[i].words);
        assert_true(disk.failed > 0);
        unsigned failed = disk.failed;
        assert_int_equal(put(f, (struct kernel){ .number = 3, .size = 5000 }), KILN_OK);

        assert_int_equal(disk.failed, failed); /* nobody tried to write */
        assert_true(holds(f, 1));
        assert_false(holds(f, 3));
        assert_int_equal(health(f).state, faults[i].state);
        assert_string_equal(kernel_health_name(health(f).state), faults[i].name);
        assert_says(health(f).text, faults[i].words);
        assert_int_equal(health(f).dropped, 2);
        assert_in_range(health(f).since, clock_wall_s() - 60, clock_wall_s());
        assert_false(kernel_store_take_notice(f->store, f->notice));

        disk.fails_with = 0;
        pass(10000);
        store_one(f, 2);
        assert_true(holds(f, 2));
        assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
        assert_true(noticed(f, "writable again"));
        assert_says(f->notice, faults[i].name);
        assert_int_equal(reopen(f, ROOMY), KILN_OK);
        assert_string_equal(f->notice, "");
    }
}

TEST(kernel_store_health, writes_are_retried_at_growing_intervals)
{
    struct fixture *f = *state;
    struct digest key = key_of(1);
    unsigned tries = 0, seen = 0;
    store_one(f, 1);
    break_disk(f, EIO);
    for (unsigned i = 0; i < 300; i++) {
        enum kiln_code rc = kernel_store_touch(f->store, &key, 1, 1700000000 + i, &f->err);
        assert_int_equal(rc, i == 0 ? KILN_IO : KILN_OK);
        tries += disk.failed > seen;
        seen = disk.failed;
        pass(100);
    }
    assert_in_range(tries, 6, 10);

    disk.fails_with = 0;
    pass(8000);
    assert_int_equal(kernel_store_touch(f->store, &key, 1, 1800000000, &f->err), KILN_OK);

    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    assert_int_equal(ask(f, "select last_used from recency"), 1800000000);
}

TEST(kernel_store_health, a_change_that_a_user_requested_is_tried_and_its_failure_reported)
{
    struct fixture *f = *state;
    struct digest key = key_of(1);
    struct kernel_filter all = { 0 };
    struct kernel_gc nothing = { 0 };
    struct kernel_gc_result result;
    uint64_t count = 0, bytes = 0;
    bool found = false;
    store_one(f, 1);
    break_disk(f, EIO);

    assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_IO);
    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_TROUBLE);
    /* kernel_store_take_notice returns the notice once, when the failure begins. */
    assert_string_equal(f->notice, health(f).text);
    assert_int_equal(kernel_store_clear(f->store, &all, &count, &bytes, &f->err), KILN_IO);
    assert_int_equal(kernel_store_pin(f->store, &key, true, &found, &f->err), KILN_IO);
    assert_int_equal(kernel_store_gc(f->store, &nothing, &result, &f->err), KILN_IO);
    assert_int_equal(import(f, (struct kernel){ .number = 2, .size = 5000 }), KILN_IO);

    assert_int_equal(kernel_store_count(f->store, &all, &count, &bytes, &f->err), KILN_OK);
    assert_int_equal(count, 1);
    assert_int_equal(health(f).dropped, 0);
    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_NONE);
    disk.fails_with = 0;

    assert_int_equal(import(f, (struct kernel){ .number = 2, .size = 5000 }), KILN_OK);

    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
}

TEST(kernel_store_health, tidying_alone_restores_writing)
{
    struct fixture *f = *state;
    bool more = false;
    store_one(f, 1);
    break_disk(f, EIO);
    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 5000 }), KILN_IO);
    pass(10000);
    assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);
    assert_int_equal(health(f).state, KERNEL_HEALTH_IO_ERROR);
    disk.fails_with = 0;
    pass(10000);

    assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);

    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    assert_true(noticed(f, "writable again"));
    assert_int_equal(usage(f).kernels, 1);
}

TEST(kernel_store_health, a_disk_that_does_not_sync_is_reported_and_recovered_from)
{
    struct fixture *f = *state;
    struct kernel_gc nothing = { 0 };
    struct kernel_gc_result result;
    for (unsigned i = 0; i < 20; i++)
        store_one(f, i);
    struct digest key = key_of(3);
    assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_OK);
    sync_fails_with = EIO;

    for (unsigned i = 4; i < 12; i++) {
        key = key_of(i);
        assert_int_equal(kernel_store_remove(f->store, &key, &f->err), KILN_OK);
    }
    assert_int_equal(kernel_store_gc(f->store, &nothing, &result, &f->err), KILN_IO);

    assert_int_equal(health(f).state, KERNEL_HEALTH_IO_ERROR);
    assert_true(holds(f, 1));
    sync_fails_with = 0;
    assert_int_equal(kernel_store_gc(f->store, &nothing, &result, &f->err), KILN_OK);
    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_int_equal(usage(f).kernels, 11);
}

TEST_F(kernel_store_health, kernels_stored_before_a_disk_failure_outlive_a_restart_after_it)
{
    for (unsigned i = 0; i < 50; i++)
        store_one(f, i);
    break_disk(f, ENOSPC);
    assert_int_equal(put(f, (struct kernel){ .number = 99, .size = 5000 }), KILN_FULL);
    close_store(f);
    disk.fails_with = 0;

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_string_equal(f->notice, "");
    for (unsigned i = 0; i < 50; i++)
        assert_true(holds(f, i));
}

TEST_F(kernel_store_health, damage_on_a_disk_that_cannot_be_written_to_leaves_the_rest_readable)
{
    struct digest key = key_of(1);
    store_one(f, 1);
    store_one(f, 2);
    meddle(f,
           "update object set bytes = x'00' where id = (select object from kernel"
           " where key = ?1)",
           &key);
    break_disk(f, EROFS);

    assert_true(is_damaged(f, 1));
    assert_int_equal(kernel_store_quarantine(f->store, &key, &f->err), KILN_DENIED);
    assert_int_equal(kernel_store_quarantine(f->store, &key, &f->err), KILN_OK);

    assert_true(is_damaged(f, 1));
    assert_true(holds(f, 2));
    disk.fails_with = 0;
    pass(10000);
    assert_int_equal(kernel_store_quarantine(f->store, &key, &f->err), KILN_OK);
    assert_false(is_damaged(f, 1));
}

SET_UP(disk_setup)
{
    setup_body(f);
    close_store(f);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("kiln-test", f->directory, "tmpfs", 0, TMPFS) != 0)
        return;
    must(reopen(f, ROOMY), f->err);
}

TEAR_DOWN(disk_teardown)
{
    close_store(f);
    umount2(f->directory, MNT_DETACH);
    teardown_body(f);
}

FIXTURE(disk, disk_setup, disk_teardown);

static void fill_disk(struct fixture *f)
{
    static const uint8_t page[4096] = { 1 };
    char name[160];
    snprintf(name, sizeof(name), "%s/filler", f->directory);
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, page, sizeof(page)) > 0)
        continue;
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

static void empty_disk(struct fixture *f)
{
    char name[160];
    snprintf(name, sizeof(name), "%s/filler", f->directory);
    assert_int_equal(unlink(name), 0);
}

TEST(disk, a_full_disk_serves_and_stores_again_when_space_is_free)
{
    struct fixture *f = *state;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    store_one(f, 1);
    fill_disk(f);

    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 400000 }), KILN_FULL);
    assert_says(f->err.text, "free");
    assert_int_equal(health(f).state, KERNEL_HEALTH_FULL);
    assert_true(holds(f, 1));
    pass(10000);
    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 400000 }), KILN_OK);
    assert_false(holds(f, 2));
    empty_disk(f);
    pass(10000);
    stored(f, (struct kernel){ .number = 2, .size = 400000 });

    assert_true(holds(f, 2));
    assert_true(noticed(f, "full"));
}

/* Small writes succeed because the log's file has unused space. This space may not suffice for a
 * kernel. */
TEST(disk, a_full_disk_stays_full_while_only_small_writes_work)
{
    struct fixture *f = *state;
    struct digest key = key_of(1);
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    store_one(f, 1);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(kernel_store_touch(f->store, &key, 1, 1700000000 + i, &f->err), KILN_OK);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    store_one(f, 3);
    fill_disk(f);
    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 400000 }), KILN_FULL);
    bool found = false;

    pass(10000);
    (void)!kernel_store_pin(f->store, &key, true, &found, &f->err);

    assert_int_equal(health(f).state, KERNEL_HEALTH_FULL);
    assert_false(kernel_store_take_notice(f->store, f->notice));
}

TEST(disk, a_full_disk_can_be_cleared)
{
    struct fixture *f = *state;
    struct kernel_filter all = { 0 };
    uint64_t count = 0, bytes = 0;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    for (unsigned i = 0; i < 100; i++)
        store_one(f, i);
    /* Reopening empties the log, which then cannot grow on the full disk. */
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    fill_disk(f);
    uint64_t before = taken(f);

    assert_int_equal(kernel_store_clear(f->store, &all, &count, &bytes, &f->err), KILN_OK);

    assert_int_equal(count, 100);
    assert_int_equal(usage(f).kernels, 0);
    assert_true(taken(f) < before / 2);
    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    store_one(f, 7);
    assert_true(holds(f, 7));
    assert_false(holds(f, 8));
}

TEST(disk, opening_on_a_full_disk_serves_stored_kernels)
{
    struct fixture *f = *state;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    store_one(f, 1);
    close_store(f);
    fill_disk(f);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_true(holds(f, 1));
    if (put(f, (struct kernel){ .number = 2, .size = 5000 }) == KILN_OK)
        assert_false(holds(f, 2));
    assert_int_equal(health(f).state, KERNEL_HEALTH_FULL);
    empty_disk(f);
    pass(10000);
    store_one(f, 2);
    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
}

TEST(disk, opening_an_empty_directory_on_a_full_disk_serves_nothing_until_space_is_free)
{
    struct fixture *f = *state;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    close_store(f);
    umount2(f->directory, MNT_DETACH);
    assert_int_equal(mount("kiln-test", f->directory, "tmpfs", 0, TMPFS), 0);
    fill_disk(f);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_says(f->notice, "nothing");
    assert_false(holds(f, 1));
    assert_int_equal(usage(f).kernels, 0);
    assert_int_equal(health(f).state, KERNEL_HEALTH_FULL);
    empty_disk(f);
    pass(10000);
    store_one(f, 1);
    assert_true(holds(f, 1));
}

static void make_read_only(struct fixture *f, bool read_only)
{
    unsigned long flags = MS_REMOUNT | (read_only ? MS_RDONLY : 0);
    assert_int_equal(mount("kiln-test", f->directory, "tmpfs", flags, TMPFS), 0);
}

TEST(disk, opening_on_a_read_only_disk_serves_stored_kernels)
{
    struct fixture *f = *state;
    bool more = false;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    store_one(f, 1);
    close_store(f);
    make_read_only(f, true);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_says(f->notice, "served");
    assert_true(holds(f, 1));
    assert_false(holds(f, 2));
    assert_int_equal(usage(f).kernels, 1);
    assert_int_equal(health(f).state, KERNEL_HEALTH_READ_ONLY);
    assert_int_equal(put(f, (struct kernel){ .number = 2, .size = 5000 }), KILN_OK);
    pass(10000);
    assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);
    /* the store can still read the file after a failed attempt to write */
    assert_true(holds(f, 1));
    assert_says(health(f).text, "Read-only");
    make_read_only(f, false);
    pass(10000);
    assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);
    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    assert_true(noticed(f, "read-only"));
    store_one(f, 2);
    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
}

static bool put_second(void *context)
{
    struct fixture *f = context;
    return reopen(f, ROOMY) == KILN_OK &&
           put(f, (struct kernel){ .number = 2, .size = 5000 }) == KILN_OK;
}

/* Another process stores a kernel and ends without closing the store, so the kernel is only in
 * the log, as after kilnd was killed. */
TEST(disk, a_log_on_a_read_only_disk_is_read)
{
    struct fixture *f = *state;
    bool more = false;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    store_one(f, 1);
    close_store(f);
    assert_true(run_in_child(put_second, f));
    assert_int_equal(files(f, "kernels.db"), 3);
    make_read_only(f, true);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
    make_read_only(f, false);
    pass(10000);
    assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);
    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    store_one(f, 3);
    assert_true(holds(f, 2));
}

/* SQLite fails to open kernels.db for writing, and then silently opens it read-only. In between,
 * the disk becomes writable. */
TEST(disk, a_disk_that_becomes_writable_during_a_try_is_written_to)
{
    struct fixture *f = *state;
    bool more = false;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    store_one(f, 1);
    close_store(f);
    make_read_only(f, true);
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
    assert_int_equal(health(f).state, KERNEL_HEALTH_READ_ONLY);

    becomes_writable = f->directory;
    pass(10000);
    (void)!kernel_store_tidy(f->store, &more, &f->err);
    assert_null(becomes_writable);
    pass(10000);
    assert_int_equal(kernel_store_tidy(f->store, &more, &f->err), KILN_OK);

    assert_int_equal(health(f).state, KERNEL_HEALTH_OK);
    store_one(f, 2);
    assert_true(holds(f, 1));
    assert_true(holds(f, 2));
}

TEST(disk, an_empty_directory_on_a_read_only_disk_serves_nothing)
{
    struct fixture *f = *state;
    SKIP_IF(!f->store, "no filesystem can be mounted here");
    close_store(f);
    umount2(f->directory, MNT_DETACH);
    assert_int_equal(mount("kiln-test", f->directory, "tmpfs", MS_RDONLY, TMPFS), 0);

    assert_int_equal(reopen(f, ROOMY), KILN_OK);

    assert_says(f->notice, "Read-only");
    assert_false(holds(f, 1));
    assert_int_equal(health(f).state, KERNEL_HEALTH_READ_ONLY);
}

TEST(kernel_store_health, a_directory_without_write_permission_serves_stored_kernels)
{
    struct fixture *f = *state;
    char command[400];
    NEED_ROOT();
    store_one(f, 1);
    close_store(f);
    snprintf(command, sizeof(command), "chown -R 65534 '%s' && chmod 0500 '%s'", f->directory,
             f->directory);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): chown(1) is recursive
    assert_int_equal(seteuid(65534), 0);

    enum kiln_code rc = reopen(f, ROOMY);
    bool served = !rc && holds(f, 1);
    enum kernel_health_state now = rc ? KERNEL_HEALTH_OK : health(f).state;

    assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, KILN_OK);
    assert_true(served);
    assert_int_equal(now, KERNEL_HEALTH_READ_ONLY);
}
