/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"
#include "store_fixture.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Limit of kernels.db. With such a low limit, a transaction changes only about a dozen kernels. */
#define SMALL_BATCHES (8u << 20)

static unsigned looks;

/* The |use|-th use (counted from 1) of the statement |statement| reports that the file is damaged.
 * If |use| is 0, no use does. */
static struct {
    size_t statement;
    unsigned use;
} damages;

WRAP(struct query, query_of, struct db *db, size_t statement)
{
    looks += statement == KERNEL_CHECK;
    struct query q = __real_query_of(db, statement);
    if (damages.use > 0 && damages.statement == statement && --damages.use == 0)
        q.failed = SQLITE_CORRUPT;
    return q;
}

static uint64_t later_ns; /* added to the clock */

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);

uint64_t __wrap_clock_monotonic_ns(void) { return __real_clock_monotonic_ns() + later_ns; }

static struct kernel_check check_within(struct fixture *f, uint64_t bytes_max, uint64_t age_max_s)
{
    struct kernel_check seen;
    const struct kernel_check_options options = { .bytes_max = bytes_max, .age_max_s = age_max_s };
    must(kernel_store_check(f->store, &options, &seen, &f->err), f->err);
    return seen;
}

static struct kernel_check check(struct fixture *f, uint64_t bytes_max)
{
    return check_within(f, bytes_max, 0);
}

TEST_F(store, a_sound_file_passes_the_check)
{
    stored(f, (struct kernel){ .number = 1, .size = 4096, .last_used = 1700000000 });
    struct kernel_check seen = check(f, UINT64_MAX);
    assert_true(seen.checked);
    assert_string_equal(seen.damage, "");
    assert_string_equal(seen.directory, f->directory);
    assert_true(seen.bytes > 4096);
    assert_true(seen.newest >= 1700000000);
}

TEST_F(store, a_file_above_the_size_limit_is_not_checked)
{
    struct kernel_check seen = check(f, 1);
    assert_false(seen.checked);
    assert_true(seen.bytes > 1);
}

TEST_F(store, the_check_reports_a_time_in_the_future)
{
    stored(f, (struct kernel){ .number = 1, .size = 100 });
    meddle(f, "update kernel set created = 9000000000", NULL);
    assert_int_equal(check(f, UINT64_MAX).newest, 9000000000u);
}

TEST_F(store, an_overwritten_page_is_reported_as_damage_not_as_an_error)
{
    uint8_t junk[4096];
    for (unsigned n = 1; n < 40; n++)
        stored(f, (struct kernel){ .number = n, .size = 4096 });
    close_store(f); /* closing checkpoints the log */
    must(reopen(f, ROOMY), f->err);
    memset(junk, 0xa5, sizeof(junk));
    int fd = open(f->file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (off_t page = 8; page < 16; page++)
        assert_int_equal(pwrite(fd, junk, sizeof(junk), page * 4096), sizeof(junk));
    close(fd);
    struct kernel_check seen = check(f, UINT64_MAX);
    assert_true(seen.checked);
    assert_true(seen.damage[0]);
}

#define LONG 1000000u /* seconds: longer than any test takes */
#define NS_PER_S UINT64_C(1000000000)

TEST_F(store, a_recent_check_result_is_reported_again_without_a_new_check)
{
    stored(f, (struct kernel){ .number = 1, .size = 4096 });
    looks = 0;
    struct kernel_check first = check_within(f, UINT64_MAX, LONG);
    struct kernel_check again = check_within(f, /* bytes_max= */ 1, LONG);
    assert_int_equal(looks, 1);
    assert_true(first.checked && again.checked);
    assert_int_equal(first.age_s, 0);
    assert_true(again.newest > 0);
    later_ns = LONG / 2 * NS_PER_S;
    struct kernel_check later = check_within(f, UINT64_MAX, LONG);
    assert_int_equal(looks, 1);
    assert_true(later.age_s >= LONG / 2 && later.age_s < LONG);
    later_ns = LONG * NS_PER_S;
    assert_int_equal(check_within(f, UINT64_MAX, LONG).age_s, 0);
    assert_int_equal(looks, 2);
    check(f, UINT64_MAX);
    assert_int_equal(looks, 3);
    later_ns = 0;
}

TEST_F(store, damage_found_by_a_check_is_reported_again)
{
    check(f, UINT64_MAX);
    pthread_mutex_lock(&f->store->mutex);
    strcpy(f->store->checked.damage, "it was bad");
    pthread_mutex_unlock(&f->store->mutex);
    assert_string_equal(check_within(f, UINT64_MAX, LONG).damage, "it was bad");
    assert_string_equal(check(f, UINT64_MAX).damage, "");
}

TEST_F(store, damage_or_a_new_file_cause_a_new_check)
{
    stored(f, (struct kernel){ .number = 1, .size = 4096 });
    check(f, UINT64_MAX);
    looks = 0;
    meddle(f, "update object set sha256 = zeroblob(32)", NULL);
    struct digest key = key_of(1);
    must(kernel_store_quarantine(f->store, &key, &f->err), f->err);
    check_within(f, UINT64_MAX, LONG);
    assert_int_equal(looks, 1);
    /* A reader that finds damage sets file_damaged. The next write then rebuilds the file. */
    atomic_store(&f->store->file_damaged, true);
    check_within(f, UINT64_MAX, LONG);
    assert_int_equal(looks, 2);
    atomic_store(&f->store->file_damaged, false);
    must(store_wipe(f->store, &f->err), f->err);
    check_within(f, UINT64_MAX, LONG);
    assert_int_equal(looks, 3);
}

/* How many more reads return garbage. SQLite's own reads count, too. Only reads of the first pages
 * do not count, and are always right. */
static unsigned rubbish_reads;
#define FIRST_PAGES (8 * 4096)

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) ssize_t pread64(int fd, void *to, size_t size, off64_t at)
{
    ssize_t got = (ssize_t)syscall(SYS_pread64, fd, to, size, at);
    if (rubbish_reads > 0 && got == 4096 && at >= FIRST_PAGES) {
        rubbish_reads--;
        memset(to, 0xa5, (size_t)got);
    }
    return got;
}

/* Stores kernels and opens the store again, so that they are in the file and no page is cached. */
static void store_many(struct fixture *f)
{
    for (unsigned n = 1; n < 40; n++)
        stored(f, (struct kernel){ .number = n, .size = 4096 });
    close_store(f);
    must(reopen(f, ROOMY), f->err);
}

TEST_F(store, damage_found_by_a_look_up_empties_the_cache)
{
    store_many(f);
    atomic_store(&f->store->file_damaged, true);
    stored(f, (struct kernel){ .number = 100, .size = 100 });
    assert_false(atomic_load(&f->store->file_damaged));
    assert_int_equal(usage(f).kernels, 1);
    assert_true(holds(f, 100));
    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_REPLACED);
}

TEST_F(store, a_single_bad_read_of_the_disk_loses_no_kernel)
{
    store_many(f);
    for (unsigned n = 1; n < 40; n++) {
        rubbish_reads = 1;
        assert_true(holds(f, n));
        rubbish_reads = 0;
    }
    assert_false(atomic_load(&f->store->file_damaged));
    stored(f, (struct kernel){ .number = 100, .size = 100 });
    assert_int_equal(usage(f).kernels, 40);
}

TEST_F(store, a_repeated_clear_reports_all_kernels_that_it_removed)
{
    const struct kernel_filter all = { .target = NULL };
    uint64_t count = 0, bytes = 0;
    must(reopen(f, SMALL_BATCHES), f->err);
    for (unsigned n = 1; n <= 40; n++)
        stored(f, (struct kernel){ .number = n, .size = 100 });
    damages.statement = KERNEL_REMOVE_MATCHES;
    damages.use = 2;
    must(kernel_store_clear(f->store, &all, &count, &bytes, &f->err), f->err);
    assert_int_equal(damages.use, 0);
    assert_int_equal(count, 40);
    assert_int_equal(usage(f).kernels, 0);
    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_NONE);
}

TEST_F(store, a_change_counts_even_if_the_vacuum_after_it_fails)
{
    struct digest key = key_of(1);
    stored(f, (struct kernel){ .number = 1, .size = 100000 });
    stored(f, (struct kernel){ .number = 2, .size = 100 });
    damages.statement = KERNEL_VACUUM;
    damages.use = 1;
    must(kernel_store_remove(f->store, &key, &f->err), f->err);
    assert_int_equal(damages.use, 0);
    assert_true(f->store->vacuum_due);
    stored(f, (struct kernel){ .number = 3, .size = 100 });
    stored(f, (struct kernel){ .number = 4, .size = 100 });
    assert_false(f->store->vacuum_due);
    assert_true(holds(f, 2));
}
