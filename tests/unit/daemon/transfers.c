/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/transfers_fixture.h"

#include "common/cleanup.h"
#include "common/fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

TEST(transfers, a_transfer_leaves_one_file_in_staging)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    assert_int_equal(files_in_staging(f), 1);
    assert_memory_equal(o->path, f->staging, strlen(f->staging));
    assert_string_equal(o->name, "gfx90a68.kdb");
    assert_string_equal(o->signer, "amd");
    assert_int_equal(o->rows, 3);
    assert_int_equal(o->size, strlen("package"));
    take_result(o, "package");
}

TEST(transfers, the_manifest_that_was_checked_comes_with_the_file)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "signed"), linked = transfer_of(f, "signed by a link");

    struct transfer_result *o = run(f, &t);
    must(o->err.code, o->err);
    assert_int_equal(o->manifest_size, strlen("who says so"));
    assert_memory_equal(o->manifest, "who says so", o->manifest_size);
    free(o->manifest);
    take_result(o, "package");

    o = run(f, &linked);
    must(o->err.code, o->err);
    assert_null(o->manifest);
    take_result(o, "package");
}

TEST(transfers, progress_is_passed_on)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");

    struct transfer_result *o = run(f, &t);

    assert_int_equal(t.reported, 1);
    assert_string_equal(t.stage, "checking");
    take_result(o, "package");
}

TEST(transfers, nothing_is_called_back_from_within_a_call)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");
    open_transfers(f);

    transfers_start(f->transfers, &t.task);
    assert_int_equal(t.ended, 0);
    transfers_cancel(f->transfers, &t.task);
    assert_int_equal(t.ended, 0);

    wait_for(f, &t);
    assert_int_equal(t.ended, 1);
}

TEST(transfers, descriptors_reach_the_process)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, NULL);
    KILN_AUTO(fd) int fd = -1;
    must(fs_memfd("content", &fd, &f->err), f->err);
    must(fs_write_all(fd, bytes_of_text("from the client"), &f->err), f->err);
    t.task.job.content_fd = fd;

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    take_result(o, "from the client");
}

TEST(transfers, another_users_process_has_its_directory_and_kilnd_takes_its_file)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "whose");
    struct stat seen;
    if (geteuid() != 0)
        skip();
    f->options.user = (struct worker_user){ .uid = 4321, .gid = 5432, .other = true };

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    assert_int_equal(stat(o->path, &seen), 0);
    assert_int_equal(seen.st_uid, 0);
    assert_int_equal(seen.st_mode & 07777, 0644);
    take_result(o, "4321:5432 directory of 4321:5432");
}

TEST(transfers, a_units_process_gets_its_directory_by_descriptor_and_its_file_is_copied)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "staging");
    struct stat seen;
    start_unit(f);

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    assert_int_equal(stat(o->path, &seen), 0);
    assert_int_equal(seen.st_uid, geteuid());
    assert_int_equal(seen.st_mode & 07777, 0644);
    assert_int_equal(files_in_staging(f), 1);
    take_result(o, ". of mode 0770");
}

/* Its limit of file sizes is its own affair: the copy is ours. */
TEST(transfers, a_units_file_that_is_larger_than_the_limit_is_not_copied)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "staging");
    t.task.job.size_limit = 9;
    start_unit(f);

    struct transfer_result *o = run(f, &t);

    assert_int_equal(o->err.code, KILN_FULL);
    assert_says(o->err.text, "package_limit");
    assert_int_equal(files_in_staging(f), 0);
}

TEST(transfers, a_units_process_that_leaves_no_file_is_found_out)
{
    struct fixture *f = *state;
    start_unit(f);
    expect_failure(f, "links", KILN_IO, "left no file");
    expect_failure(f, "dies", KILN_IO, "kiln-transfer died of SIGABRT (Aborted) while starting");
}

TEST(transfers, a_unit_that_ends_it_is_named)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    start_unit(f);
    open_transfers(f);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.reported);

    launch_service_end_units(&f->unit);
    wait_for(f, &t);

    assert_int_equal(t.task.result.err.code, KILN_IO);
    assert_says(t.task.result.err.text, "service manager");
}

TEST(transfers, a_unit_that_is_not_there_is_said)
{
    struct fixture *f = *state;
    f->options.service = "/nonexistent/transfer.sock";
    f->options.user = (struct worker_user){ .uid = getuid(), .gid = getgid() };
    expect_failure(f, "good", KILN_UNAVAILABLE, "/nonexistent/transfer.sock");
}

TEST(transfers, a_group_that_kilnd_is_not_in_is_reported_with_advice)
{
    struct fixture *f = *state;
    if (geteuid() == 0) { /* skip() would leave out the tear-down */
        print_message("not run: root is in every group\n");
        return;
    }
    start_unit(f);
    f->options.user.gid = 0;
    expect_failure(f, "good", KILN_DENIED, "SupplementaryGroups=");
}

TEST(transfers, the_error_that_the_process_reports_is_the_result)
{
    expect_failure(*state, "damaged", KILN_CORRUPT, "row 7 is damaged");
}

TEST(transfers, a_process_that_dies_leaves_nothing)
{
    expect_failure(*state, "dies", KILN_IO,
                   "kiln-transfer died of SIGABRT (Aborted) while starting");
}

TEST(transfers, a_transfer_process_that_exits_without_a_result_is_a_failure)
{
    expect_failure(*state, "leaves", KILN_IO, "exited with status 7");
}

TEST(transfers, a_process_that_talks_nonsense_is_killed)
{
    expect_failure(*state, "babbles", KILN_IO, "what is not an answer");
}

TEST(transfers, a_transferred_file_that_is_not_regular_is_not_taken)
{
    expect_failure(*state, "links", KILN_IO, "left no file");
    expect_failure(*state, "lies", KILN_IO, "left no file");
}

/* As if it had the file still open: it can do with it what it likes. */
static void expect_a_copy(struct fixture *f)
{
    char kept[128];
    struct transfer t = transfer_of(f, "two names");
    struct transfer_result *o = run(f, &t);
    must(o->err.code, o->err);
    snprintf(kept, sizeof(kept), "%s/kept", f->staging);
    assert_int_equal(truncate(kept, 0), 0);
    assert_int_equal(o->size, strlen("package"));
    take_result(o, "package");
    assert_int_equal(unlink(kept), 0);
}

TEST(transfers, a_file_that_the_process_keeps_open_is_taken_as_a_copy) { expect_a_copy(*state); }

TEST(transfers, a_file_from_a_unit_that_keeps_it_open_is_taken_as_a_copy)
{
    struct fixture *f = *state;
    start_unit(f);
    expect_a_copy(f);
}

TEST(transfers, a_name_that_leads_elsewhere_is_nonsense)
{
    expect_failure(*state, "escapes", KILN_IO, "what is not an answer");
}

TEST(transfers, a_result_counts_even_if_the_process_dies_after_it)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good, then dies");

    struct transfer_result *o = run(f, &t);

    must(o->err.code, o->err);
    take_result(o, "package");
}

TEST(transfers, a_transfer_takes_no_longer_than_it_may)
{
    struct fixture *f = *state;
    f->options.timeout_ms = 50;

    expect_failure(f, "hangs", KILN_TIMED_OUT, "took longer than");
}

TEST(transfers, a_process_that_makes_no_progress_is_ended)
{
    struct fixture *f = *state;
    f->options.silence_ms = 50;

    expect_failure(f, "hangs", KILN_TIMED_OUT, "made no progress");
}

TEST(transfers, a_process_that_goes_on_telling_is_not_silent)
{
    struct fixture *f = *state;
    f->options.silence_ms = 1400; /* a slow machine takes its time until the first word */
    f->options.timeout_ms = 1500;

    expect_failure(f, "tells on", KILN_TIMED_OUT, "took longer than");
}

TEST(transfers, a_running_transfer_can_be_cancelled)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    open_transfers(f);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.reported);

    transfers_cancel(f->transfers, &t.task);
    wait_for(f, &t);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
    assert_int_equal(files_in_staging(f), 0);
}

static sem_t gate;

static void wait_at_the_gate(struct task *task)
{
    (void)task;
    while (sem_wait(&gate) != 0) {
    }
}

static void on_through(struct task *task) { (void)task; }

TEST(transfers, a_transfer_that_is_being_started_can_be_cancelled)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    struct task blockers[READERS];
    open_transfers(f);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < READERS; i++) {
        blockers[i] = (struct task){ .work = wait_at_the_gate, .done = on_through };
        work_queues_run(f->work_queues, WORK_QUEUE_READ, &blockers[i]);
    }
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, work_queues_out(f->work_queues) >
                            READERS); /* until its directory waits to be made */

    transfers_cancel(f->transfers, &t.task);
    for (size_t i = 0; i < READERS; i++)
        sem_post(&gate);
    wait_for(f, &t);
    LOOP_UNTIL(f->loop, work_queues_out(f->work_queues) <= 0);

    assert_int_equal(t.task.result.err.code, KILN_CANCELLED);
    assert_int_equal(t.reported, 0);
    sem_destroy(&gate);
}

TEST(transfers, transfers_beyond_the_limit_wait_and_can_be_cancelled)
{
    struct fixture *f = *state;
    f->options.at_once = 1;
    struct transfer first = transfer_of(f, "hangs"), second = transfer_of(f, "hangs"),
                    third = transfer_of(f, "good");
    open_transfers(f);
    transfers_start(f->transfers, &first.task);
    transfers_start(f->transfers, &second.task);
    transfers_start(f->transfers, &third.task);
    LOOP_UNTIL(f->loop, first.reported);
    assert_int_equal(transfers_out(f->transfers), 3);

    transfers_cancel(f->transfers, &second.task);
    wait_for(f, &second);
    assert_int_equal(second.task.result.err.code, KILN_CANCELLED);
    assert_int_equal(second.reported + third.reported, 0);
    transfers_cancel(f->transfers, &first.task);
    wait_for(f, &third);

    must(third.task.result.err.code, third.task.result.err);
    assert_int_equal(first.ended, 1);
    take_result(&third.task.result, "package");
}

TEST(transfers, several_run_at_once)
{
    struct fixture *f = *state;
    struct transfer first = transfer_of(f, "hangs"), second = transfer_of(f, "hangs");
    second.task.uid = 7;
    open_transfers(f);
    transfers_start(f->transfers, &first.task);
    transfers_start(f->transfers, &second.task);

    LOOP_UNTIL(f->loop, first.reported && second.reported);

    transfers_stop(f->transfers);
    wait_for(f, &first);
    wait_for(f, &second);
}

TEST(transfers, one_user_leaves_a_process_to_the_others)
{
    struct fixture *f = *state;
    struct transfer own[] = { transfer_of(f, "hangs"), transfer_of(f, "hangs") },
                    other = transfer_of(f, "good");
    open_transfers(f);
    transfers_start(f->transfers, &own[0].task);
    transfers_start(f->transfers, &own[1].task);
    LOOP_UNTIL(f->loop, own[0].reported);
    other.task.uid = 7;

    struct transfer_result *o = &other.task.result;
    transfers_start(f->transfers, &other.task);
    wait_for(f, &other);

    must(o->err.code, o->err);
    take_result(o, "package");
    assert_int_equal(own[1].reported, 0);
    end(f, &own[0]);
    LOOP_UNTIL(f->loop, own[1].reported);
    end(f, &own[1]);
}

TEST(transfers, a_users_first_transfer_goes_before_the_seconds_of_another)
{
    struct fixture *f = *state;
    f->options.at_once = 1;
    struct transfer own[] = { transfer_of(f, "hangs"), transfer_of(f, "hangs"),
                              transfer_of(f, "hangs") },
                    other = transfer_of(f, "hangs");
    other.task.uid = 7;
    open_transfers(f);
    for (size_t i = 0; i < 3; i++)
        transfers_start(f->transfers, &own[i].task);
    LOOP_UNTIL(f->loop, own[0].reported);
    transfers_start(f->transfers, &other.task);
    end(f, &own[0]);
    LOOP_UNTIL(f->loop, other.reported); /* before the second, which came before it */
    assert_int_equal(own[1].reported + own[2].reported, 0);
    end(f, &other);
    for (size_t i = 1; i < 3; i++) {
        LOOP_UNTIL(f->loop, own[i].reported);
        end(f, &own[i]);
    }
}

TEST(transfers, cancelling_an_ended_transfer_does_nothing)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");
    struct transfer_result *o = run(f, &t);

    transfers_cancel(f->transfers, &t.task);

    must(o->err.code, o->err);
    take_result(o, "package");
}

TEST(transfers, a_stop_ends_running_and_waiting_transfers)
{
    struct fixture *f = *state;
    f->options.at_once = 1;
    struct transfer first = transfer_of(f, "hangs"), second = transfer_of(f, "good"),
                    later = transfer_of(f, "good");
    open_transfers(f);
    transfers_start(f->transfers, &first.task);
    transfers_start(f->transfers, &second.task);
    LOOP_UNTIL(f->loop, first.reported);

    transfers_stop(f->transfers);
    wait_for(f, &first);
    wait_for(f, &second);
    run(f, &later);

    assert_int_equal(first.task.result.err.code, KILN_UNAVAILABLE);
    assert_int_equal(second.task.result.err.code, KILN_UNAVAILABLE);
    assert_int_equal(later.task.result.err.code, KILN_UNAVAILABLE);
    assert_says(later.task.result.err.text, "shutting down");
}

TEST(transfers, closing_waits_for_running_transfers)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    open_transfers(f);
    transfers_start(f->transfers, &t.task);
    LOOP_UNTIL(f->loop, t.reported);

    close_transfers(f);

    assert_int_equal(t.ended, 1);
    assert_int_equal(t.task.result.err.code, KILN_UNAVAILABLE);
}

TEST(transfers, a_program_that_is_not_there_is_said_with_its_setting)
{
    struct fixture *f = *state;
    f->options.program = "/nonexistent/kiln-transfer";

    expect_failure(f, "good", KILN_UNAVAILABLE, "/nonexistent/kiln-transfer");
    expect_failure(f, "good", KILN_UNAVAILABLE, "setting transfer");
}

TEST(transfers, a_staging_directory_that_cannot_be_made_is_reported)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");
    t.task.job.staging = "/proc/nonexistent";

    struct transfer_result *o = run(f, &t);

    assert_int_not_equal(o->err.code, KILN_OK);
    assert_says(o->err.text, "/proc/nonexistent");
}
