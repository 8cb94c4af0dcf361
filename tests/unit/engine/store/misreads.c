/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"

#include <sys/syscall.h>
#include <unistd.h>

#define KERNELS 200u
#define PAGE 4096u

static unsigned misreads_left; /* how many more reads of pages after page 1 are wrong */

/* Replaces libc's pread64, also for SQLite. It has another name in C, because libc's header may
 * define pread64 as an inline function. */
ssize_t misread(int fd, void *data, size_t size, off_t at) __asm__("pread64");
__attribute__((visibility("default"))) ssize_t misread(int fd, void *data, size_t size, off_t at)
{
    ssize_t got = syscall(SYS_pread64, fd, data, size, at);
    if (misreads_left > 0 && got == PAGE && at >= PAGE) {
        misreads_left--;
        *(uint8_t *)data = 0x55; /* not a valid page type */
    }
    return got;
}

static void fill_and_reopen(struct fixture *f)
{
    for (unsigned i = 0; i < KERNELS; i++)
        stored(f, (struct kernel){ .number = i, .size = 300 });
    assert_int_equal(reopen(f, ROOMY), KILN_OK);
}

struct listed {
    unsigned count;
    unsigned misread_after; /* misread a page after this many records; 0: never */
};

static void add_to_list(void *context, const struct kernel_record *record)
{
    struct listed *list = context;
    assert_true(record->raw_size == 300);
    if (++list->count == list->misread_after)
        misreads_left = 1;
}

static unsigned count_listed(struct fixture *f, unsigned misread_after)
{
    struct listed list = { .misread_after = misread_after };
    const struct kernel_page page = { .max = 2 * KERNELS };
    assert_int_equal(kernel_store_list(f->store, &page, add_to_list, &list, &f->err), KILN_OK);
    return list.count;
}

static void assert_kept(struct fixture *f)
{
    assert_int_equal(misreads_left, 0);
    assert_int_equal(kernel_store_misreads(f->store), 1);
    stored(f, (struct kernel){ .number = KERNELS, .size = 300 });
    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_NONE);
    assert_int_equal(usage(f).kernels, KERNELS + 1);
    assert_int_equal(kernel_store_misreads(f->store), 1);
}

TEST_F(store, a_lookup_that_misreads_a_page_finds_its_kernel_and_keeps_the_file)
{
    fill_and_reopen(f);
    misreads_left = 1;
    assert_true(holds(f, 7));
    assert_kept(f);
}

TEST_F(store, a_list_that_misreads_its_first_page_is_complete_and_keeps_the_file)
{
    fill_and_reopen(f);
    misreads_left = 1;
    assert_int_equal(count_listed(f, 0), KERNELS);
    assert_kept(f);
}

TEST_F(store, a_list_that_misreads_a_later_page_repeats_no_kernel_and_keeps_the_file)
{
    fill_and_reopen(f);
    assert_int_equal(count_listed(f, 2), KERNELS);
    assert_kept(f);
}

TEST_F(store, a_write_that_misreads_a_page_keeps_the_file)
{
    fill_and_reopen(f);
    struct digest key = key_of(3);
    misreads_left = 1;
    assert_int_equal(kernel_store_touch(f->store, &key, 1, 1900000000, &f->err), KILN_OK);
    assert_kept(f);
}

TEST_F(store, a_page_that_is_damaged_twice_costs_the_file)
{
    struct listed list = { 0 };
    const struct kernel_page page = { .max = KERNELS };
    fill_and_reopen(f);

    misreads_left = 2;
    assert_int_equal(kernel_store_list(f->store, &page, add_to_list, &list, &f->err), KILN_CORRUPT);
    assert_int_equal(misreads_left, 0);
    stored(f, (struct kernel){ .number = 1, .size = 300 });

    assert_int_equal(kernel_store_take_notice(f->store, f->notice), KERNEL_NOTICE_REPLACED);
    assert_int_equal(usage(f).kernels, 1);
    assert_int_equal(kernel_store_misreads(f->store), 0);
}
