/* SPDX-License-Identifier: MIT */

/* Tests of kilnctl's commands in which the n-th allocation fails. Neither a request nor a file may
 * be incomplete. */
#include "cli/kilnctl/overlay_manifest.h"
#include "cli/text_stream.h"
#include "tests/support/entries.h"
#include "tests/support/failing_json.h"
#include "tests/unit/cli/kilnctl_fake.h"
#include "tests/unit/cli/scratch_directory.h"

#include <errno.h>

struct fixture {
    struct command_run run;
    const char *directory;
};

SET_UP(set_up)
{
    f->directory = fake_begin();
    json_allocations_can_fail();
}

FIXTURE(kilnctl_failing, set_up, NULL);

/* Runs the command again and again, each time with a later allocation that fails, until none fails.
 * kilnd must get |request| or nothing. */
#define EXPECT_ONLY(f, request, ...)                                                   \
    do {                                                                               \
        bool failed_ = true;                                                           \
        for (unsigned nth_ = 1; failed_; nth_++) {                                     \
            memset(&fake, 0, sizeof(fake));                                            \
            fake.answers[0].reply = "{\"kernels\":3,\"bytes\":4096}";                  \
            fail_call("malloc", nth_, ENOMEM);                                         \
            int rc_ = RUN(&(f)->run, __VA_ARGS__);                                     \
            failed_ = calls_failed();                                                  \
            assert_true(rc_ == KILN_E_OK || failed_);                                  \
            assert_true(fake.asked == 1 || (fake.asked == 0 && failed_));              \
            assert_string_equal(fake.asked ? fake.requests[0] : (request), (request)); \
        }                                                                              \
    } while (0)

TEST_F(kilnctl_failing, gc_and_clear_never_lose_an_argument_when_memory_runs_out)
{
    EXPECT_ONLY(f, "gc {\"stale\":true,\"dry_run\":true}", "gc", "--stale", "--dry-run");
    EXPECT_ONLY(f, "clear {\"target\":\"gfx90a\",\"dry_run\":true}", "clear", "--target", "gfx90a",
                "--dry-run");
}

/* The test checks little itself. With a sanitizer, it fails if a command uses a JSON object that
 * could not be added to the output for lack of memory. */
TEST_F(kilnctl_failing, lists_of_results_are_not_used_after_memory_ran_out)
{
    EXPECT_ONLY(f, "package_remove {\"name\":\"a\"}", "pkg", "rm", "a", "--json");
    EXPECT_ONLY(f, "package_verify {\"name\":\"a\"}", "pkg", "verify", "a", "--json");
}

static void check_overlay(struct fixture *f, int rc, bool failed)
{
    OVERLAY_MANIFEST_AUTO struct overlay_manifest read = { .count = 0 };
    struct kiln_error err = { 0 };
    if (rc) {
        assert_true(failed);
        assert_int_equal(entry_count(f->directory, ""), 0);
        return;
    }
    must(overlay_manifest_read(f->directory, &read, &err), err);
    assert_int_equal(read.count, 1);
    assert_int_equal(read.files[0].lines.count, 2);
    assert_int_equal(read.files[0].fingerprint.parts[0].size, 7);
}

TEST_F(kilnctl_failing, an_overlay_manifest_is_written_whole_or_not_at_all_when_memory_runs_out)
{
    uint64_t digests[] = { 1, 2 };
    struct overlay_file file = { .name = "user/a.udb",
                                 .fingerprint.parts[0].size = 7,
                                 .lines = { .digests = digests, .count = 2 } };
    const struct overlay_manifest manifest = { .version = "3.2.0", .files = &file, .count = 1 };
    char path[512];
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        struct kiln_error err = { 0 };
        fail_call("malloc", nth, ENOMEM);
        int rc = overlay_manifest_write(f->directory, &manifest, &err);
        failed = calls_failed();
        check_overlay(f, rc, failed);
        unlink(scratch_path(f->directory, OVERLAY_MANIFEST, path));
    }
}

#define PIECES 5000u

/* Prints PIECES texts to a text_stream, while the |nth| call of realloc fails. Returns false if
 * there were fewer calls. */
static bool fill_text_stream(unsigned nth)
{
    struct text_stream stream;
    fail_call("realloc", nth, ENOMEM);
    assert_true(text_stream_open(&stream));
    for (unsigned i = 0; i < PIECES; i++)
        fprintf(stream.out, "%05u,", i);
    KILN_AUTO(mem) char *text = text_stream_end(&stream);
    bool failed = calls_failed();
    assert_int_equal(text == NULL, failed);
    for (unsigned i = 0; text && i < PIECES; i++)
        assert_int_equal(strtoul(text + i * 6, NULL, 10), i);
    assert_int_equal(text ? strlen(text) : 0, text ? PIECES * 6 : 0);
    return failed;
}

TEST_F(kilnctl_failing, a_text_stream_has_everything_that_was_written_or_fails)
{
    unsigned nth = 1;
    (void)f;
    while (fill_text_stream(nth))
        nth++;
    assert_true(nth > 2);
}
