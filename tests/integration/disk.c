/* SPDX-License-Identifier: MIT */
/*
 * A disk that fills up, is read-only, or is another machine's: kilnd goes on serving and says so,
 * or refuses to start and says what to set.
 */
#include "tests/integration/numbered.h"
#include "tests/integration/steps.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    char cache[128];
    bool mounted;
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    daemon_process_init(&f.daemon);
    snprintf(f.cache, sizeof(f.cache), "%s", f.daemon.cache);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    unsetenv("LD_PRELOAD");
    unsetenv("ASAN_OPTIONS");
    if (f->daemon.pid)
        daemon_process_stop(&f->daemon); /* before its disk goes */
    if (f->mounted)
        umount2(f->cache, MNT_DETACH);
    daemon_process_remove(&f->daemon);
    return 0;
}

FIXTURE(disk, setup, teardown);

/* A small disk under the cache directory, which this process and those it starts see, nobody else.
 */
static void mount_disk(struct fixture *f, const char *options)
{
    shell(f->daemon.directory, "mkdir -p -m 0700 '%s'", f->cache);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", f->cache, "tmpfs", 0, options) != 0) {
        print_message("SKIPPED: no filesystem can be mounted here\n");
        skip();
    }
    f->mounted = true;
}

static void start(struct fixture *f)
{
    static const char *const arguments[] = { "--hot-limit", "0", "--cache-limit", "64MiB" };
    memcpy(f->daemon.arguments, arguments, sizeof(arguments));
    daemon_process_start(&f->daemon);
}

static void restart(struct fixture *f)
{
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    start(f);
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

/* What is compiled from now on is stored, after it was answered. */
static void expect_kept(struct fixture *f, unsigned number)
{
    struct kernel_kept kept = { f, number };
    assert_int_equal(numbered_tier(&f->daemon, number), KILN_TIER_COMPILED);
    wait_until("the kernel to be stored", is_kept, &kept);
}

/* Also what was compiled while the disk was full. */
static void expect_booked_after_restart(struct fixture *f)
{
    char words[64];
    snprintf(words, sizeof(words), "\"compiles\":%llu,", daemon_stat(&f->daemon, "compiles"));
    restart(f);
    kilnctl_ok(f, "stats", "--by", "uid", "--json");
    assert_says(f->result.output, words);
}

/* So small a kernel may find room in the log; then all is well. */
static void expect_prefetch_says(struct fixture *f, const char *problems, const char *target)
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

/* Nobody may take a host for prepared that will have forgotten all at its next start. */
static void expect_prefetch_not_stored(struct fixture *f)
{
    char problems[160];
    snprintf(problems, sizeof(problems), "%s/problems.txt", f->daemon.directory);
    FILE *out = fopen(problems, "we");
    assert_non_null(out);
    fputs("conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n", out);
    assert_int_equal(fclose(out), 0);
    expect_prefetch_says(f, problems, "gfx90a");
    expect_prefetch_says(f, problems, "gfx906");
}

TEST(disk, a_full_disk_is_reported_and_kilnd_serves_until_space_is_free)
{
    struct fixture *f = *state;
    mount_disk(f, "size=8m,mode=0700");
    start(f);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_COMPILED);
    numbered_stored(&f->daemon, 2);
    shell(f->cache, "cat /dev/zero >filler 2>/dev/null; test -s filler");

    for (unsigned n = 2; n < 6; n++)
        assert_int_equal(numbered_tier(&f->daemon, n), KILN_TIER_COMPILED);

    expect_health(f, "\"full\"");
    expect_trouble(f, "disk space");
    assert_true(daemon_stat(&f->daemon, "store_errors") > 0);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_DISK);

    expect_prefetch_not_stored(f);

    shell(f->cache, "rm filler");

    expect_health(f, "\"ok\""); /* by itself */
    expect_kept(f, 7);
    expect_booked_after_restart(f);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 7), KILN_TIER_DISK);
}

TEST(disk, a_disk_that_is_full_from_the_start_keeps_nobody_from_work)
{
    struct fixture *f = *state;
    mount_disk(f, "size=8m,mode=0700");
    shell(f->cache, "cat /dev/zero >filler 2>/dev/null; test -s filler");
    start(f);

    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);

    expect_health(f, "\"full\"");
    shell(f->cache, "rm filler");
    expect_health(f, "\"ok\"");
    expect_kept(f, 1);
}

/* SQLite needs free space to remove a row.  Removing the file needs none. */
TEST(disk, on_a_full_disk_gc_advises_and_clearing_all_frees_space)
{
    struct fixture *f = *state;
    mount_disk(f, "size=16m,mode=0700");
    start(f);
    for (unsigned n = 0; n < 30; n++) /* more than 1 MiB: with less, a disk counts as full */
        assert_int_equal(numbered_tier(&f->daemon, n), KILN_TIER_COMPILED);
    numbered_stored(&f->daemon, 30);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    shell(f->cache, "cat /dev/zero >filler 2>/dev/null; test -s filler");
    start(f);
    expect_health(f, "\"full\"");

    run_program(&f->daemon, &f->result, "kilnctl", "gc", "--to", "250K", "--yes", NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "clear --all");
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);

    kilnctl_ok(f, "clear", "--all", "--yes");
    expect_health(f, "\"ok\"");
    assert_int_equal(daemon_stat(&f->daemon, "store_objects"), 0);
    expect_kept(f, 40);
}

static void remount(struct fixture *f, unsigned long flags)
{
    if (mount("tmpfs", f->cache, "tmpfs", MS_REMOUNT | flags, "") != 0)
        fail_msg("cannot remount '%s'", f->cache);
}

TEST(disk, a_disk_that_is_read_only_serves_and_is_used_again_when_it_is_not)
{
    struct fixture *f = *state;
    mount_disk(f, "size=8m,mode=0700");
    start(f);
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_COMPILED);
    numbered_stored(&f->daemon, 1);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    remount(f, MS_RDONLY);
    start(f);

    expect_health(f, "\"read-only\"");
    expect_trouble(f, "Read-only file system");
    assert_int_equal(numbered_tier(&f->daemon, 0), KILN_TIER_DISK);
    assert_int_equal(numbered_tier(&f->daemon, 1), KILN_TIER_COMPILED);

    remount(f, 0);

    expect_health(f, "\"ok\"");
    expect_kept(f, 2);
}

/* ---- filesystems of other machines ---- */

/* To kilnd all below |directory| is on a filesystem of type |type|. */
static void pretend(const char *type, const char *directory)
{
    const char *options = getenv("ASAN_OPTIONS");
    char more[512];
    snprintf(more, sizeof(more), "%s:verify_asan_link_order=0", options ? options : "");
    setenv("ASAN_OPTIONS", more, 1);
    setenv("LD_PRELOAD", KILN_BIN "/../tests/fake_filesystem.so", 1);
    setenv("KILN_TEST_F_TYPE", type, 1);
    setenv("KILN_TEST_F_FOLDER", directory, 1);
}

static void expect_refused(struct fixture *f, const char *directory, const char *name,
                           const char *setting)
{
    char state[128];
    snprintf(state, sizeof(state), "%s/state", f->daemon.directory);
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--cache-dir",
                f->cache, "--state-dir", state, NULL);
    assert_true(f->result.status == 1);
    assert_says(f->result.output, directory);
    assert_says(f->result.output, name);
    assert_says(f->result.output, setting);
}

TEST(disk, a_network_filesystem_is_refused_for_cache_and_state)
{
    struct fixture *f = *state;
    char directory[128];
    pretend("0x6969", f->cache);
    expect_refused(f, f->cache, "(nfs)", "--cache-dir");
    pretend("0x0bd00bd0", f->cache);
    expect_refused(f, f->cache, "(lustre)", "--cache-dir");
    snprintf(directory, sizeof(directory), "%s/state", f->daemon.directory);
    pretend("0x6969", directory);
    expect_refused(f, directory, "(nfs)", "--state-dir");

    pretend("0x6969", f->daemon.directory); /* neither directory is there yet */
    run_program(&f->daemon, &f->result, "kilnd", "--check-config", "--cache-dir", f->cache,
                "--state-dir", directory, NULL);
    expect_status(&f->result, 2, "(nfs)");
    assert_says(f->result.output, "cache_dir");

    pretend("0x6969", "/absent"); /* so that nothing else refused it */
    daemon_process_start(&f->daemon);
}
