/* SPDX-License-Identifier: MIT */
#include "tests/integration/numbered.h"
#include "tests/integration/steps.h"
#include "tests/support/test_files.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    bool mounted;
};

SET_UP(setup) { daemon_process_init(&f->daemon); }

TEAR_DOWN(teardown)
{
    if (f->daemon.pid)
        daemon_process_stop(&f->daemon);
    if (f->mounted)
        umount2(f->daemon.cache, MNT_DETACH);
}

FIXTURE(disk, setup, teardown);

static void mount_disk(struct fixture *f, const char *options)
{
    shell(f->daemon.directory, "mkdir -p -m 0700 '%s'", f->daemon.cache);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", f->daemon.cache, "tmpfs", 0, options) != 0) {
        SKIP("no filesystem can be mounted here");
    }
    f->mounted = true;
}

static void start_kilnd(struct fixture *f)
{
    static const char *const arguments[] = { "--hot-limit", "0", "--cache-limit", "64MiB" };
    memcpy(f->daemon.arguments, arguments, sizeof(arguments));
    daemon_process_start(&f->daemon);
}

static void restart_kilnd(struct fixture *f)
{
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    start_kilnd(f);
}

struct health {
    struct fixture *f;
    const char *wanted;
    char is[512];
};

static bool is_as_wanted(void *context)
{
    struct health *health = context;
    daemon_status(&health->f->daemon, "store", "health", health->is);
    return strcmp(health->is, health->wanted) == 0;
}

static void expect_health(struct fixture *f, const char *wanted)
{
    struct health health = { .f = f, .wanted = wanted };
    if (!holds_in_time(is_as_wanted, &health))
        fail_msg("the store's health is %s and stays it, not %s", health.is, wanted);
}

static void expect_trouble(struct fixture *f, const char *words)
{
    char trouble[512];
    daemon_status(&f->daemon, "store", "trouble", trouble);
    assert_says(trouble, words);
    kilnctl_ok(f, "stats", "--json");
    assert_says(f->result.output, "\"store_writable\":false");
    kilnctl_ok(f, "metrics");
    assert_says(f->result.output, "\nkiln_up 1\n");
    assert_says(f->result.output, "\nkiln_store_writable 0\n");
    kilnctl_ok(f, "stats", "--by", "program");
    assert_says(f->result.output, "total");
}

struct kernel_kept {
    struct fixture *f;
    unsigned number;
};

static bool is_kept(void *context)
{
    struct kernel_kept *kept = context;
    return numbered_tier(&kept->f->daemon, kept->number) == KILN_TIER_DISK;
}

/* Waits, because kilnd replies before it stores a kernel. */
static void expect_stored(struct fixture *f, unsigned number)
{
    struct kernel_kept kept = { f, number };
    assert_int_equal(numbered_tier(&f->daemon, number), KILN_TIER_COMPILED);
    wait_until("the kernel to be stored", is_kept, &kept);
}

struct counted {
    struct fixture *f;
    char words[64];
};

static bool is_counted(void *context)
{
    struct counted *counted = context;
    kilnctl_ok(counted->f, "stats", "--by", "uid", "--json");
    return strstr(counted->f->result.output, counted->words) != NULL;
}

/* Waits, because kilnd answers before it has loaded what was counted. */
static void expect_counted_after_restart(struct fixture *f)
{
    struct counted counted = { .f = f };
    snprintf(counted.words, sizeof(counted.words), "\"compiles\":%llu,",
             daemon_stat(&f->daemon, "compiles"));
    restart_kilnd(f);
    wait_until("the compiles before the restart to be counted", is_counted, &counted);
}

/* Runs a prefetch on a full disk. It must fail for lack of disk space, or succeed if the log of
 * kernels.db still has space for a small kernel. */
static void expect_prefetch_result(struct fixture *f, const char *problems, const char *target)
{
    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", problems, "--target", target,
                "--json", NULL);
    if (f->result.status == 0) {
        assert_says(f->result.output, "\"not_stored\":0");
        return;
    }
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "disk space");
    assert_says(f->result.output, "1 kernel");
}

static void expect_prefetch_not_stored(struct fixture *f)
{
    const char *problems = test_path(f->daemon.directory, "problems.txt");
    test_write_text(problems, "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    expect_prefetch_result(f, problems, "gfx90a");
    expect_prefetch_result(f, problems, "gfx906");
}

TEST_F(disk, a_full_disk_is_reported_and_kilnd_serves_until_space_is_free)
{
    mount_disk(f, "size=8m,mode=0700");
    start_kilnd(f);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_COMPILED);
    numbered_stored(&f->daemon, 2);
    shell(f->daemon.cache, "cat /dev/zero >filler 2>/dev/null; test -s filler");

    for (unsigned n = 2; n < 6; n++)
        assert_int_equal(numbered_tier(&f->daemon, n), KILN_TIER_COMPILED);

    expect_health(f, "\"full\"");
    expect_trouble(f, "disk space");
    assert_true(daemon_stat(&f->daemon, "store_errors") > 0);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_DISK);

    expect_prefetch_not_stored(f);

    shell(f->daemon.cache, "rm filler");

    expect_health(f, "\"ok\""); /* kilnd notices the free space without any request of a client */
    expect_stored(f, 7);
    expect_counted_after_restart(f);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 7), KILN_TIER_DISK);
}

TEST_F(disk, a_disk_that_is_full_at_the_start_does_not_prevent_service)
{
    mount_disk(f, "size=8m,mode=0700");
    shell(f->daemon.cache, "cat /dev/zero >filler 2>/dev/null; test -s filler");
    start_kilnd(f);

    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);

    expect_health(f, "\"full\"");
    shell(f->daemon.cache, "rm filler");
    expect_health(f, "\"ok\"");
    expect_stored(f, 1);
}

/* To delete rows, SQLite needs free space; to delete the file, it does not. */
TEST_F(disk, on_a_full_disk_gc_advises_and_clearing_all_frees_space)
{
    mount_disk(f, "size=16m,mode=0700");
    start_kilnd(f);
    /* Clearing must free more than 1 MiB, because a disk with less free space counts as full. */
    for (unsigned n = 0; n < 30; n++)
        assert_int_equal(numbered_tier(&f->daemon, n), KILN_TIER_COMPILED);
    numbered_stored(&f->daemon, 30);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    shell(f->daemon.cache, "cat /dev/zero >filler 2>/dev/null; test -s filler");
    start_kilnd(f);
    expect_health(f, "\"full\"");

    run_program(&f->daemon, &f->result, "kilnctl", "gc", "--to", "250K", "--yes", NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "clear --all");
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);

    kilnctl_ok(f, "clear", "--all", "--yes");
    expect_health(f, "\"ok\"");
    assert_int_equal(daemon_stat(&f->daemon, "store_objects"), 0);
    expect_stored(f, 40);
}

static void remount_disk(struct fixture *f, unsigned long flags)
{
    if (mount("tmpfs", f->daemon.cache, "tmpfs", MS_REMOUNT | flags, "") != 0)
        fail_msg("cannot remount '%s'", f->daemon.cache);
}

TEST_F(disk, a_read_only_disk_serves_and_stores_again_when_writable)
{
    mount_disk(f, "size=8m,mode=0700");
    start_kilnd(f);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);
    numbered_stored(&f->daemon, 1);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    remount_disk(f, MS_RDONLY);
    start_kilnd(f);

    expect_health(f, "\"read-only\"");
    expect_trouble(f, "Read-only file system");
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_COMPILED);

    remount_disk(f, 0);

    expect_health(f, "\"ok\"");
    expect_stored(f, 2);
}

static void expect_refused(struct fixture *f, const char *directory, const char *name,
                           const char *setting)
{
    char state[128];
    snprintf(state, sizeof(state), "%s/state", f->daemon.directory);
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--cache-dir",
                f->daemon.cache, "--state-dir", state, NULL);
    assert_true(f->result.status == 1);
    assert_says(f->result.output, directory);
    assert_says(f->result.output, name);
    assert_says(f->result.output, setting);
}

TEST(disk, a_network_filesystem_is_refused_for_cache_and_state)
{
    struct fixture *f = *state;
    char directory[128];
    fake_filesystem_type("0x6969", f->daemon.cache);
    expect_refused(f, f->daemon.cache, "(nfs)", "--cache-dir");
    fake_filesystem_type("0x0bd00bd0", f->daemon.cache);
    expect_refused(f, f->daemon.cache, "(lustre)", "--cache-dir");
    snprintf(directory, sizeof(directory), "%s/state", f->daemon.directory);
    fake_filesystem_type("0x6969", directory);
    expect_refused(f, directory, "(nfs)", "--state-dir");

    fake_filesystem_type("0x6969", f->daemon.directory);
    run_program(&f->daemon, &f->result, "kilnd", "--check-config", "--cache-dir", f->daemon.cache,
                "--state-dir", directory, NULL);
    expect_status(&f->result, 2, "(nfs)");
    assert_says(f->result.output, "cache_dir");

    /* If only another directory is on a network filesystem, kilnd starts. */
    fake_filesystem_type("0x6969", "/absent");
    daemon_process_start(&f->daemon);
}
