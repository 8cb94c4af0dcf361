/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/transfers_fixture.h"

#include "engine/jobs/transfer_limits.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

TEST_F(transfers, a_transfer_leaves_one_file_in_staging)
{
    struct transfer t = transfer_of(f, "good");

    struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(files_in_staging(f), 1);
    assert_memory_equal(o->path, f->staging, strlen(f->staging));
    assert_string_equal(o->name, "gfx90a68.kdb");
    assert_string_equal(o->signer, "amd");
    assert_int_equal(o->rows, 3);
    assert_int_equal(o->size, strlen("package"));
    take_result(o, "package");
}

TEST_F(transfers, the_checked_manifest_comes_with_the_file)
{
    struct transfer t = transfer_of(f, "signed"), linked = transfer_of(f, "signed by a link");

    struct transfer_result *o = run_transfer(f, &t);
    assert_int_equal(o->manifest_size, strlen("manifest"));
    assert_memory_equal(o->manifest, "manifest", o->manifest_size);
    free(o->manifest);
    take_result(o, "package");

    o = run_transfer(f, &linked);
    assert_null(o->manifest);
    take_result(o, "package");
}

TEST_F(transfers, progress_of_a_transfer_is_reported)
{
    struct transfer t = transfer_of(f, "good");

    struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(t.reported, 1);
    assert_string_equal(t.stage, "checking");
    take_result(o, "package");
}

TEST_F(transfers, no_callback_runs_from_within_a_call)
{
    struct transfer t = transfer_of(f, "good");
    open_transfers(f);

    transfers_start(f->transfers, &t.task);
    assert_int_equal(t.ended, 0);
    transfers_cancel(f->transfers, &t.task);
    assert_int_equal(t.ended, 0);

    wait_for_end(f, &t);
    assert_int_equal(t.ended, 1);
}

TEST_F(transfers, a_descriptor_reaches_the_transfer_process)
{
    struct transfer t = transfer_of(f, NULL);
    KILN_AUTO(fd) int fd = -1;
    must(fs_memfd("content", &fd, &f->err), f->err);
    must(fs_write_all(fd, bytes_of_text("from the client"), &f->err), f->err);
    t.task.job.content_fd = fd;

    take_result(run_transfer(f, &t), "from the client");
}

TEST_F(transfers, a_process_of_another_user_owns_its_directory_and_kilnd_takes_its_file)
{
    struct transfer t = transfer_of(f, "whose");
    struct stat seen;
    NEED_ROOT();
    f->options.user = (struct worker_user){ .uid = 4321, .gid = 5432, .other = true };

    struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(stat(o->path, &seen), 0);
    assert_int_equal(seen.st_uid, 0);
    assert_int_equal(seen.st_mode & 07777, 0600);
    take_result(o, "4321:5432 directory of 4321:5432");
}

TEST_F(transfers, a_units_process_gets_its_directory_by_descriptor_and_its_file_is_copied)
{
    struct transfer t = transfer_of(f, "staging");
    struct stat seen;
    start_unit(f);

    struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(stat(o->path, &seen), 0);
    assert_int_equal(seen.st_uid, geteuid());
    assert_int_equal(seen.st_mode & 07777, 0600);
    assert_int_equal(files_in_staging(f), 1);
    take_result(o, ". of mode 0770");
}

/* A systemd unit has its own limit of file sizes, so kilnd checks the transfer's limit when it
 * copies the file. */
TEST_F(transfers, a_units_file_that_is_larger_than_the_limit_is_not_copied)
{
    struct transfer t = transfer_of(f, "staging");
    t.task.job.size_limit = 9;
    start_unit(f);

    const struct transfer_result *o = run_transfer(f, &t);

    assert_int_equal(o->err.code, KILN_FULL);
    assert_says(o->err.text, "package_limit");
    assert_int_equal(files_in_staging(f), 0);
}

TEST_F(transfers, a_process_of_a_unit_that_leaves_no_file_is_an_error)
{
    start_unit(f);
    expect_failure(f, "links", KILN_IO, "did not write");
    expect_failure(f, "dies", KILN_IO, "SIGABRT");
}

TEST_F(transfers, a_transfer_that_its_unit_ends_is_reported)
{
    struct transfer t = transfer_of(f, "hangs");
    start_unit(f);
    start_transfer(f, &t);

    launch_service_end_units(&f->unit);
    wait_for_end(f, &t);

    assert_int_equal(t.task.result.err.code, KILN_IO);
    assert_says(t.task.result.err.text, "service manager");
}

TEST_F(transfers, a_missing_unit_is_reported)
{
    f->options.service = "/nonexistent/transfer.sock";
    f->options.user = (struct worker_user){ .uid = getuid(), .gid = getgid() };
    expect_failure(f, "good", KILN_UNAVAILABLE, "/nonexistent/transfer.sock");
}

TEST_F(transfers, a_group_that_kilnd_is_not_in_is_reported_with_advice)
{
    SKIP_IF(geteuid() == 0, "root is in every group");
    start_unit(f);
    f->options.user.gid = 0;
    expect_failure(f, "good", KILN_DENIED, "SupplementaryGroups=");
}

TEST(transfers, the_error_that_the_process_reports_is_the_result)
{
    expect_failure(*state, "damaged", KILN_CORRUPT, "row 7");
}

TEST(transfers, a_process_that_dies_leaves_nothing)
{
    expect_failure(*state, "dies", KILN_IO, "SIGABRT");
}

TEST(transfers, a_transfer_process_that_exits_without_a_result_is_a_failure)
{
    expect_failure(*state, "leaves", KILN_IO, "status 7");
}

TEST(transfers, a_process_that_sends_no_valid_answer_is_killed)
{
    expect_failure(*state, "babbles", KILN_IO, "answer");
}

TEST(transfers, a_transferred_file_that_is_not_regular_is_not_taken)
{
    expect_failure(*state, "links", KILN_IO, "did not write");
    expect_failure(*state, "no file", KILN_IO, "did not write");
}

/* The process can still change the file under a second name, or through a descriptor that it kept
 * open. kilnd must therefore take a copy. */
static void expect_a_copy(struct fixture *f)
{
    char kept[128];
    struct transfer t = transfer_of(f, "two names");
    const struct transfer_result *o = run_transfer(f, &t);
    snprintf(kept, sizeof(kept), "%s/kept", f->staging);
    assert_int_equal(truncate(kept, 0), 0);
    assert_int_equal(o->size, strlen("package"));
    take_result(o, "package");
    assert_int_equal(unlink(kept), 0);
}

TEST(transfers, a_file_that_the_process_keeps_open_is_taken_as_a_copy) { expect_a_copy(*state); }

TEST_F(transfers, a_file_from_a_unit_that_keeps_it_open_is_taken_as_a_copy)
{
    start_unit(f);
    expect_a_copy(f);
}

TEST(transfers, a_result_name_that_leads_outside_its_directory_is_invalid)
{
    expect_failure(*state, "escapes", KILN_IO, "answer");
}

TEST(transfers, a_result_counts_even_if_the_process_dies_after_it)
{
    expect_content(*state, "good, then dies", "package");
}

TEST_F(transfers, a_transfer_that_takes_too_long_is_ended)
{
    f->options.timeout_ms = 50;

    expect_failure(f, "hangs", KILN_TIMED_OUT, "longer");
}

TEST_F(transfers, a_process_that_makes_no_progress_is_ended)
{
    f->options.silence_ms = 50;

    expect_failure(f, "hangs", KILN_TIMED_OUT, "no progress");
}

TEST_F(transfers, a_process_that_keeps_reporting_is_not_silent)
{
    struct transfer t = transfer_of(f, "reports on");
    start_transfer(f, &t);
    unsigned reports = t.reported, starts = timers.silences;
    LOOP_UNTIL(f->loop, t.reported >= reports + 3);
    assert_int_equal(timers.silences - starts, t.reported - reports);
    cancel_transfer(f, &t);
}

TEST_F(transfers, a_running_transfer_can_be_cancelled)
{
    struct transfer t = transfer_of(f, "hangs");
    start_transfer(f, &t);

    cancel_transfer(f, &t);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
    assert_int_equal(files_in_staging(f), 0);
}

static sem_t gate;

static void wait_at_the_gate(struct task *task)
{
    (void)task;
    WAIT_FOR(sem_trywait(&gate) == 0);
}

static void on_done(struct task *task) { (void)task; }

TEST_F(transfers, a_transfer_that_is_being_started_can_be_cancelled)
{
    struct transfer t = transfer_of(f, "hangs");
    struct task blockers[READERS];
    open_transfers(f);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < READERS; i++) {
        blockers[i] = (struct task){ .work = wait_at_the_gate, .done = on_done };
        work_queues_run(f->work_queues, WORK_QUEUE_READ, &blockers[i]);
    }
    transfers_start(f->transfers, &t.task);
    /* The task that makes the transfer's directory waits behind the blockers. */
    LOOP_UNTIL(f->loop, work_queues_out(f->work_queues) > READERS);

    transfers_cancel(f->transfers, &t.task);
    for (size_t i = 0; i < READERS; i++)
        sem_post(&gate);
    wait_for_end(f, &t);
    LOOP_UNTIL(f->loop, work_queues_out(f->work_queues) <= 0);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
    assert_int_equal(t.reported, 0);
    sem_destroy(&gate);
}

TEST_F(transfers, a_users_files_are_checked_one_at_a_time)
{
    struct transfer own[3], of_other = transfer_of_user(f, "hangs", 8);
    of_other.task.job.of_user = true;
    open_transfers(f);
    for (unsigned i = 0; i < 3; i++) {
        own[i] = transfer_of_user(f, "hangs", 7);
        own[i].task.job.of_user = true;
        transfers_start(f->transfers, &own[i].task);
    }
    transfers_start(f->transfers, &of_other.task);
    LOOP_UNTIL(f->loop, own[0].reported > 0 && of_other.reported > 0);

    cancel_transfer(f, &own[1]);
    assert_int_equal(own[1].task.result.err.code, KILN_CANCELLED);
    assert_int_equal(own[1].reported, 0);
    assert_int_equal(own[2].reported, 0);
    cancel_transfer(f, &own[0]);
    LOOP_UNTIL(f->loop, own[2].reported > 0);

    transfers_stop(f->transfers);
    wait_for_end(f, &own[2]);
    wait_for_end(f, &of_other);
}

TEST_F(transfers, a_stop_ends_waiting_transfers)
{
    struct transfer first = transfer_of_user(f, "hangs", 7);
    struct transfer second = transfer_of_user(f, "good", 7);
    first.task.job.of_user = second.task.job.of_user = true;
    start_transfer(f, &first);
    transfers_start(f->transfers, &second.task);

    transfers_stop(f->transfers);
    wait_for_end(f, &first);
    wait_for_end(f, &second);

    assert_int_equal(second.task.result.err.code, KILN_UNAVAILABLE);
}

TEST_F(transfers, packages_and_files_of_different_users_run_at_once)
{
    struct transfer slow[UPLOADS_MAX];
    open_transfers(f);
    for (unsigned i = 0; i < UPLOADS_MAX; i++) {
        slow[i] = transfer_of_user(f, "hangs", 7 + i / UPLOADS_MAX_UID);
        transfers_start(f->transfers, &slow[i].task);
    }
    for (unsigned i = 0; i < UPLOADS_MAX; i++)
        LOOP_UNTIL(f->loop, slow[i].reported > 0);

    transfers_stop(f->transfers);
    for (unsigned i = 0; i < UPLOADS_MAX; i++)
        wait_for_end(f, &slow[i]);
}

TEST_F(transfers, cancelling_an_ended_transfer_has_no_effect)
{
    struct transfer t = transfer_of(f, "good");
    struct transfer_result *o = run_transfer(f, &t);

    transfers_cancel(f->transfers, &t.task);

    take_result(o, "package");
}

TEST_F(transfers, a_stop_ends_running_and_later_transfers)
{
    struct transfer first = transfer_of(f, "hangs"), later = transfer_of(f, "good");
    start_transfer(f, &first);

    transfers_stop(f->transfers);
    wait_for_end(f, &first);
    run_transfer(f, &later);

    assert_int_equal(first.task.result.err.code, KILN_UNAVAILABLE);
    assert_int_equal(later.task.result.err.code, KILN_UNAVAILABLE);
    assert_says(later.task.result.err.text, "shutting");
}

TEST_F(transfers, closing_waits_for_running_transfers)
{
    struct transfer t = transfer_of(f, "hangs");
    start_transfer(f, &t);

    close_transfers(f);

    assert_int_equal(t.ended, 1);
    assert_int_equal(t.task.result.err.code, KILN_UNAVAILABLE);
}

TEST_F(transfers, a_missing_transfer_program_is_reported_with_its_setting)
{
    f->options.program = "/nonexistent/kiln-transfer";

    expect_failure(f, "good", KILN_UNAVAILABLE, "'/nonexistent/kiln-transfer'");
    expect_failure(f, "good", KILN_UNAVAILABLE, "setting transfer");
}

TEST_F(transfers, a_staging_directory_that_cannot_be_made_is_reported)
{
    struct transfer t = transfer_of(f, "good");
    t.task.job.staging = "/proc/nonexistent";

    struct transfer_result *o = run_transfer(f, &t);

    assert_int_not_equal(o->err.code, KILN_OK);
    assert_says(o->err.text, "/proc/nonexistent");
}
