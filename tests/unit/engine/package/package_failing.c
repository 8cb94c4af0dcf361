/* SPDX-License-Identifier: MIT */

#include "package_fixture.h"
#include "tests/support/failing_json.h"

#include <errno.h>
#include <string.h>

#define MI210 "gfx90a68"

SET_UP(set_up)
{
    json_allocations_can_fail();
    open_directories(f);
}

FIXTURE(package_failing, set_up, NULL);

static const struct failing_call calls[] = {
    { "malloc", ENOMEM, 1 }, { "calloc", ENOMEM, 1 }, { "realloc", ENOMEM, 1 },
    { "strdup", ENOMEM, 1 }, { "open", EMFILE, 1 },   { "pread", EIO, 1 },
    { "readdir", EIO, 1 },
};

/* Scans while the |nth| call of |call| fails. Returns false if there were fewer calls. */
static bool rescan_failing(struct fixture *f, const struct failing_call *call, unsigned nth)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    fail_call(call->name, nth, call->error);
    if (package_set_rescan(f->set, NULL, NULL, NULL, &ignored))
        assert_true(ignored.text[0]);
    return calls_failed();
}

/* A temporary failure must not look like a damaged file, a missing signature or a missing key. */
TEST_F(package_failing, a_rescan_repairs_what_an_earlier_rescan_could_not_read)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    f->require_signature = true;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        unsigned nth = 1;
        for (bool failed = true; failed; nth++) {
            must(open_set(f), f->err);
            failed = rescan_failing(f, &calls[i], nth);
            rescan(f);
            if (f->refused > 0 || !has(f, MI210, 3) || !has_key(f, 3))
                fail_msg("after %s number %u: '%s'", calls[i].name, nth, f->refusal);
        }
        if (nth <= 2)
            fail_msg("%s is not called", calls[i].name);
    }
}

TEST_F(package_failing, a_key_that_cannot_be_read_leaves_the_signature_in_force_until_it_can)
{
    must(install(f, "gfx90a68.kpkg", 0, 5, "alice"), f->err);
    rescan(f);
    assert_true(has_key(f, 3));
    put_package(f, f->keys, "any.kpkg", 0, 1); /* changes the time of the directory */
    fail_calls("open", EMFILE);
    rescan(f);
    assert_true(calls_failed());
    assert_true(has_key(f, 3));
    assert_int_equal(unlink(path_in(f->keys, "alice.pub")), 0);
    rescan(f);
    assert_false(has_key(f, 3));
}

TEST_F(package_failing, a_lasting_failure_is_reported_once_and_tried_again)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    fail_calls("open", EIO);
    rescan(f);
    assert_int_equal(f->refused, 1);
    rescan(f);
    assert_int_equal(f->refused, 0);
    assert_true(calls_failed());
    rescan(f);
    assert_int_equal(f->came, 1);
    assert_true(has(f, MI210, 3));
}

TEST_F(package_failing, packages_stay_in_use_while_their_directory_cannot_be_read)
{
    put_package(f, f->other, "gfx90a68.kdb", 0, 5);
    rescan(f);
    assert_true(has(f, MI210, 3));
    fail_calls("readdir", EIO);
    rescan(f);
    assert_true(calls_failed());
    assert_int_equal(f->went, 0);
    assert_says(f->refusal, "search");
    assert_true(has(f, MI210, 3));
    assert_int_equal(unlink(path_in(f->other, "gfx90a68.kdb")), 0);
    rescan(f);
    assert_int_equal(f->went, 1);
}
