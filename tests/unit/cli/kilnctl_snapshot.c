/* SPDX-License-Identifier: MIT */

/* Tests of snapshots of files that another program may have open. The command under test starts the
 * test program again, as kiln-transfer. */
#include "cli/kilnctl/snapshot.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "tests/support/test.h"
#include "tests/unit/cli/fake_transfer.h"
#include "tests/unit/cli/scratch_directory.h"

#include <sys/wait.h>

struct fixture {
    const char *directory;
    char path[512];
    struct snapshot snapshot;
    struct kiln_error err;
};

SET_UP(set_up)
{
    f->directory = test_directory();
    scratch_create(f->directory, "a.ukdb", "cache", f->path);
    f->snapshot.fd = -1;
}

TEAR_DOWN(tear_down) { fd_auto(&f->snapshot.fd); }

FIXTURE(kilnctl_snapshot, set_up, tear_down);

static int open_with(struct fixture *f, const char *behaviour)
{
    test_setenv(FAKE_TRANSFER, behaviour);
    return snapshot_open(f->path, SNAPSHOT_TUNING, UINT64_MAX, &f->snapshot, &f->err);
}

TEST_F(kilnctl_snapshot, kiln_transfer_opens_the_file_and_reports_lost_pages)
{
    char text[16] = "";
    must(open_with(f, "merge"), f->err);
    assert_int_equal(pread(f->snapshot.fd, text, sizeof(text), 0), 5);
    assert_string_equal(text, "cache");
    assert_true(f->snapshot.merged);
    assert_string_equal(f->snapshot.note, "one?page");
    assert_true(fcntl(f->snapshot.fd, F_GETFD) & FD_CLOEXEC);
}

TEST_F(kilnctl_snapshot, a_refusal_by_the_transfer_program_is_reported_with_its_message)
{
    assert_int_equal(open_with(f, "refuse"), KILN_E_IO);
    assert_says(f->err.text, "cannot open");
}

TEST_F(kilnctl_snapshot, an_answer_without_a_regular_file_is_corrupt)
{
    assert_int_equal(open_with(f, "forget"), KILN_E_CORRUPT);
    assert_int_equal(open_with(f, "babble"), KILN_E_CORRUPT);
    assert_int_equal(open_with(f, "directory"), KILN_E_INVALID);
    assert_int_equal(f->snapshot.fd, -1);
}

TEST_F(kilnctl_snapshot, a_program_that_ends_without_a_message_is_reported_with_its_status)
{
    assert_int_equal(open_with(f, "leave"), KILN_E_IO);
    assert_says(f->err.text, "status 7");
    assert_int_equal(open_with(f, "die"), KILN_E_IO);
    assert_says(f->err.text, "signal 9");
}

TEST_F(kilnctl_snapshot, a_program_that_takes_longer_than_the_timeout_is_ended)
{
    test_setenv(FAKE_TRANSFER, "hang");
    uint64_t now = clock_monotonic_ns();
    assert_int_equal(snapshot_open(f->path, SNAPSHOT_TUNING, now, &f->snapshot, &f->err),
                     KILN_E_TIMED_OUT);
    assert_says(f->err.text, "--timeout");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

TEST_F(kilnctl_snapshot, no_descriptors_are_left_behind_by_failures)
{
    int before = dup(0);
    close(before);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(open_with(f, "directory"), KILN_E_INVALID);
        assert_int_equal(open_with(f, "babble"), KILN_E_CORRUPT);
    }
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

TEST_F(kilnctl_snapshot, without_kiln_transfer_an_unused_file_is_opened_directly)
{
    scratch_write(f->directory, "a.ukdb-wal", "");
    must(snapshot_open(f->path, SNAPSHOT_TUNING, UINT64_MAX, &f->snapshot, &f->err), f->err);
    assert_false(f->snapshot.merged);
    assert_string_equal(f->snapshot.note, "");
}

TEST_F(kilnctl_snapshot, without_kiln_transfer_a_file_in_use_is_refused)
{
    scratch_write(f->directory, "a.ukdb-journal", "log");
    assert_int_equal(snapshot_open(f->path, SNAPSHOT_TUNING, UINT64_MAX, &f->snapshot, &f->err),
                     KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "kiln-transfer");
}

TEST_F(kilnctl_snapshot, a_pipe_is_refused_without_waiting)
{
    char path[512];
    int fd = -1;
    assert_int_equal(mkfifo(scratch_path(f->directory, "pipe", path), 0600), 0);
    assert_int_equal(snapshot_open_plain(path, &fd, &f->err), KILN_E_INVALID);
    assert_int_equal(fd, -1);
}

int main(int argc, char **argv)
{
    FAKE_TRANSFER_MAIN(argc, argv);
    return test_main(argc, argv);
}
