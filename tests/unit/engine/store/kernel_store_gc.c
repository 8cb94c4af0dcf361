/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define NOW 1700000000ull

static struct kernel_gc_result gc(struct fixture *f, struct kernel_gc options)
{
    struct kernel_gc_result result;
    if (kernel_store_gc(f->store, &options, &result, &f->err) != KILN_OK)
        fail_msg("%s", f->err.text);
    return result;
}

/* Stores three kernels of toolchain 7, four of 8, and one of an unknown toolchain. */
static void store_some(struct fixture *f)
{
    for (unsigned i = 0; i < 7; i++)
        stored(f, (struct kernel){ .number = i, .size = 10000, .toolchain = i < 3 ? 7 : 8 });
    struct object *object = object_of(10000, 99, false);
    struct kernel_record unknown = { .key = key_of(7), .database_id = "gfx906_60" };
    uint64_t evicted = 0;
    assert_int_equal(kernel_store_put(f->store, &unknown, object, &evicted, &f->err), KILN_OK);
    object_unref(object);
}

TEST_F(store, kernels_of_uninstalled_toolchains_are_removed)
{
    struct digest here[] = { key_of(7), key_of(1234) };
    store_some(f);
    struct kernel_gc stale = { .stale = true, .toolchains = here, .toolchain_count = 2 };
    struct kernel_gc report = stale;
    report.dry_run = true;

    struct kernel_gc_result reported = gc(f, report);
    assert_int_equal(usage(f).kernels, 8);
    struct kernel_gc_result done = gc(f, stale);

    assert_int_equal(reported.stale_kernels, 4);
    assert_int_equal(reported.stale_bytes, 40000);
    assert_int_equal(reported.taken_after, reported.taken_before);
    assert_int_equal(done.stale_kernels, 4);
    assert_int_equal(done.stale_bytes, 40000);
    assert_true(done.taken_after + 40000 <= done.taken_before);
    assert_int_equal(done.taken_after, taken(f));
    assert_int_equal(usage(f).kernels, 4);
    assert_true(holds(f, 0));
    assert_false(holds(f, 3));
    assert_true(holds(f, 7));
}

/* Comparing the counters with the rows takes long, so gc must not do it on the write queue. */
TEST_F(store, gc_writes_nothing_if_the_counters_agree_with_the_rows)
{
    struct kernel_gc nothing = { 0 };
    struct kernel_gc_result result;
    struct stat before, after;
    char log[200];
    for (unsigned i = 0; i < 5; i++)
        store_one(f, i);
    tidy_store(f);
    snprintf(log, sizeof(log), "%s-wal", f->file);
    assert_int_equal(stat(log, &before), 0);

    assert_int_equal(kernel_store_gc(f->store, &nothing, &result, &f->err), KILN_OK);

    assert_int_equal(stat(log, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void expect_repair(struct fixture *f, const char *damage)
{
    struct kernel_gc nothing = { 0 };
    struct kernel_gc_result result;
    meddle(f, damage, NULL);
    assert_int_equal(kernel_store_gc(f->store, &nothing, &result, &f->err), KILN_OK);
    assert_int_equal(usage(f).kernels, ask(f, "select count(*) from kernel"));
    assert_int_equal(usage(f).objects, ask(f, "select count(*) from object"));
    assert_int_equal(ask(f, "select count(*) from recency where uid = 1000"), 5);
    assert_int_equal(ask(f, "select sum(kernels) from usage_uid"), 5);
    assert_int_equal(ask(f, "select sum(bytes) from usage_uid"),
                     usage(f).stored_bytes + usage(f).row_bytes);
}

TEST_F(store, gc_repairs_each_disagreement)
{
    for (unsigned i = 0; i < 5; i++)
        store_one(f, i);
    expect_repair(f, "update usage set kernels = 7");
    expect_repair(f, "update usage set objects = 7");
    expect_repair(f, "update usage set stored_bytes = 7");
    expect_repair(f, "update usage set row_bytes = 7");
    expect_repair(f, "delete from usage");
    expect_repair(f, "update usage_uid set bytes = 7");
    expect_repair(f, "delete from usage_uid");
    expect_repair(f, "insert into usage_uid values (77, 1, 1)");
    expect_repair(f, "delete from recency where kernel = 2");
    expect_repair(f, "update recency set uid = 7 where kernel = 2");
    expect_repair(f, "insert into object values (99, x'00', 0, 1, 1, x'00', 0)");
}

TEST_F(store, gc_keeps_pinned_kernels)
{
    struct digest key = key_of(3);
    bool found = false;
    store_some(f);
    assert_int_equal(kernel_store_pin(f->store, &key, true, &found, &f->err), KILN_OK);

    struct kernel_gc_result done = gc(f, (struct kernel_gc){ .stale = true, .shrink = true });

    assert_int_equal(done.stale_kernels, 6);
    assert_int_equal(done.evicted_kernels, 1);
    assert_true(holds(f, 3));
    assert_int_equal(usage(f).kernels, 1);
}

TEST_F(store, gc_evicts_the_least_valuable_kernels_down_to_the_given_size)
{
    for (unsigned i = 0; i < 100; i++)
        stored(f, (struct kernel){ .number = i, .size = 30000, .last_used = NOW + i });
    const uint64_t to = 1 << 20;

    struct kernel_gc_result reported =
        gc(f, (struct kernel_gc){ .shrink = true, .to_bytes = to, .dry_run = true });
    assert_int_equal(usage(f).kernels, 100);
    struct kernel_gc_result done = gc(f, (struct kernel_gc){ .shrink = true, .to_bytes = to });

    assert_true(taken(f) <= to);
    assert_true(taken(f) > to * 9 / 10);
    assert_int_equal(done.taken_after, taken(f));
    assert_int_equal(done.evicted_kernels, 100 - usage(f).kernels);
    assert_in_range(done.evicted_bytes, 30000 * done.evicted_kernels, 31000 * done.evicted_kernels);
    assert_in_range(reported.evicted_kernels, done.evicted_kernels / 2, 100);
    assert_true(holds(f, 99));
    assert_false(holds(f, 0));
}

TEST_F(store, gc_does_nothing_if_the_files_are_small_enough)
{
    store_some(f);
    struct digest here[] = { key_of(7), key_of(8) };

    struct kernel_gc_result done = gc(f, (struct kernel_gc){ .stale = true,
                                                             .toolchains = here,
                                                             .toolchain_count = 2,
                                                             .shrink = true,
                                                             .to_bytes = ROOMY });

    assert_int_equal(done.stale_kernels + done.evicted_kernels, 0);
    assert_int_equal(usage(f).kernels, 8);
}

TEST_F(store, gc_down_to_zero_bytes_leaves_an_empty_store)
{
    store_some(f);

    struct kernel_gc_result done = gc(f, (struct kernel_gc){ .shrink = true });

    assert_int_equal(done.evicted_kernels, 8);
    assert_int_equal(usage(f).kernels + usage(f).objects, 0);
    assert_true(done.taken_after < 200000);
    assert_true(done.missed);
    assert_false(gc(f, (struct kernel_gc){ .shrink = true, .to_bytes = 1u << 30 }).missed);
    store_some(f);
    assert_true(holds(f, 1));
}

/* Limits the size of files to |max| bytes. Writes beyond fail as on a full disk. */
static void limit_files(rlim_t max)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void expect_advice(const struct fixture *f)
{

    assert_says(f->err.text, "16.0 MiB"); /* the space that the log needs */
    assert_says(f->err.text, "--all --yes");
}

/* A removal first writes to the log, which needs free space. Only the removal of all kernels needs
 * none. */
TEST_F(store, a_full_disk_is_reported_with_advice)
{
    const struct kernel_gc shrink = { .shrink = true, .to_bytes = 1 };
    const struct kernel_filter some = { .target = "gfx90a" }, all = { .target = NULL };
    struct kernel_gc_result result;
    uint64_t count = 0, bytes = 0;
    store_some(f);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(4096);
    enum kiln_code collected = kernel_store_gc(f->store, &shrink, &result, &f->err);
    limit_files(RLIM_INFINITY);
    assert_int_equal(collected, KILN_FULL);
    expect_advice(f);

    f->err.text[0] = '\0';
    limit_files(4096);
    enum kiln_code cleared = kernel_store_clear(f->store, &some, &count, &bytes, &f->err);
    limit_files(RLIM_INFINITY);
    assert_int_equal(cleared, KILN_FULL);
    expect_advice(f);

    assert_int_equal(kernel_store_clear(f->store, &all, &count, &bytes, &f->err), KILN_OK);
    assert_int_equal(usage(f).kernels, 0);
}
