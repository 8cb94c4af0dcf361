/* SPDX-License-Identifier: MIT */
/* kernels.db as a whole: sound or not, and the latest time in it. */
#include "store_fixture.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct kernel_check check(struct fixture *f, uint64_t most)
{
    struct kernel_check seen;
    must(kernel_store_check(f->store, most, &seen, &f->err), f->err);
    return seen;
}

static void a_sound_file_is_read_and_found_so(void **state)
{
    struct fixture *f = *state;
    stored(f, (struct kernel){ .number = 1, .size = 4096, .last_used = 1700000000 });
    struct kernel_check seen = check(f, UINT64_MAX);
    assert_true(seen.checked);
    assert_string_equal(seen.damage, "");
    assert_string_equal(seen.directory, f->folder);
    assert_true(seen.bytes > 4096);
    assert_true(seen.newest >= 1700000000);
}

static void a_longer_file_than_wanted_is_not_read(void **state)
{
    struct fixture *f = *state;
    struct kernel_check seen = check(f, 1);
    assert_false(seen.checked);
    assert_true(seen.bytes > 1);
}

static void a_time_in_the_future_is_seen(void **state)
{
    struct fixture *f = *state;
    stored(f, (struct kernel){ .number = 1, .size = 100 });
    meddle(f, "update kernel set created = 9000000000", NULL);
    assert_int_equal(check(f, UINT64_MAX).newest, 9000000000u);
}

static void a_page_that_is_overwritten_is_damage_and_no_failure(void **state)
{
    struct fixture *f = *state;
    uint8_t junk[4096];
    for (unsigned n = 1; n < 40; n++)
        stored(f, (struct kernel){ .number = n, .size = 4096 });
    close_store(f); /* its log is in the file now */
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sound_file_is_read_and_found_so),
        TEST(a_longer_file_than_wanted_is_not_read),
        TEST(a_time_in_the_future_is_seen),
        TEST(a_page_that_is_overwritten_is_damage_and_no_failure),
    };
    return cmocka_run_group_tests_name("kernel_store_check", tests, NULL, NULL);
}
