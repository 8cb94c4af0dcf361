/* SPDX-License-Identifier: MIT */
#include "daemon/workers/transfer.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define READERS 2

/* ---- fixture ---- */

struct fixture {
    struct loop *loop;
    struct lanes *lanes;
    struct transfers *transfers;
    struct transfers_options options;
    char folder[64], staging[96];
    struct loop_owner owner;
    struct loop_timer tick; /* so that a turn of the loop ends though nothing happens */
    bool closed;
    struct kiln_err err;
};

struct transfer {
    struct transfer_task task;
    unsigned ended, told;
    char stage[16];
};

static void on_done(struct transfer_task *task) { ((struct transfer *)(void *)task)->ended++; }

static void on_progress(struct transfer_task *task, const struct transfer_progress *progress)
{
    struct transfer *t = (struct transfer *)(void *)task;
    t->told++;
    snprintf(t->stage, sizeof(t->stage), "%s", progress->stage);
}

static struct transfer transfer_of(const struct fixture *f, const char *url)
{
    return (struct transfer){
        .task = { .job = { .url = url,
                           .content_fd = -1,
                           .manifest_fd = -1,
                           .name = "gfx90a68.kdb",
                           .staging = f->staging,
                           .trusted_keys = "/nonexistent",
                           .size_limit = 1 << 20 },
                  .progress = on_progress,
                  .done = on_done },
    };
}

static void on_tick(struct loop_timer *timer) { (void)timer; }

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .folder = "/tmp/kiln-transfers-XXXXXX", .err = KILN_ERR_INIT };
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.staging, sizeof(f.staging), "%s/a/staging", f.folder);
    must(loop_create(&f.loop, &f.err), f.err);
    must(lanes_create(f.loop, READERS, &f.lanes, &f.err), f.err);
    loop_timer_init(f.loop, &f.tick, &f.owner, on_tick);
    loop_timer_start(&f.tick, 1, 1);
    f.options = (struct transfers_options){
        .loop = f.loop,
        .lanes = f.lanes,
        .program = FAKE_TRANSFER,
        .at_once = 2,
        .timeout_ms = 60000,
    };
    *state = &f;
    return 0;
}

static void open_transfers(struct fixture *f)
{
    must(transfers_create(&f->options, &f->transfers, &f->err), f->err);
}

static void on_closed(void *context) { ((struct fixture *)context)->closed = true; }

static void close_transfers(struct fixture *f)
{
    loop_timer_close(&f->tick);
    transfers_close(f->transfers, on_closed, f);
    assert_false(f->closed);
    loop_run(f->loop);
    assert_true(f->closed);
    f->transfers = NULL;
}

static unsigned files_in_staging(const struct fixture *f)
{
    unsigned count = 0;
    DIR *dir = opendir(f->staging);
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->transfers)
        close_transfers(f);
    assert_int_equal(lanes_out(f->lanes), 0);
    lanes_destroy(f->lanes);
    loop_destroy(f->loop);
    unsigned left = files_in_staging(f);
    fs_remove_tree(AT_FDCWD, f->folder);
    assert_int_equal(left, 0);
    return 0;
}

static void wait_for(struct fixture *f, const struct transfer *t)
{
    while (!t->ended)
        loop_turn(f->loop);
}

static struct transfer_outcome *run(struct fixture *f, struct transfer *t)
{
    if (!f->transfers)
        open_transfers(f);
    transfers_start(f->transfers, &t->task);
    wait_for(f, t);
    assert_int_equal(transfers_out(f->transfers), 0);
    return &t->task.outcome;
}

static void expect_failure(struct fixture *f, const char *url, enum kiln_code code,
                           const char *says)
{
    struct transfer t = transfer_of(f, url);
    struct transfer_outcome *o = run(f, &t);
    assert_int_equal(o->err.code, code);
    assert_says(o->err.text, says);
    assert_string_equal(o->path, "");
    assert_int_equal(files_in_staging(f), 0);
}

static void take_result(const struct transfer_outcome *o, const char *content)
{
    char got[64] = "";
    FILE *file = fopen(o->path, "r");
    assert_non_null(file);
    assert_non_null(fgets(got, sizeof(got), file));
    fclose(file);
    assert_string_equal(got, content);
    assert_int_equal(unlink(o->path), 0);
}

/* ---- tests ---- */

static void a_transfer_leaves_one_file_in_staging(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");

    struct transfer_outcome *o = run(f, &t);

    must(o->err.code, o->err);
    assert_int_equal(files_in_staging(f), 1);
    assert_memory_equal(o->path, f->staging, strlen(f->staging));
    assert_string_equal(o->name, "gfx90a68.kdb");
    assert_string_equal(o->signer, "amd");
    assert_int_equal(o->rows, 3);
    assert_int_equal(o->size, strlen("package"));
    take_result(o, "package");
}

static void progress_is_passed_on(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");

    struct transfer_outcome *o = run(f, &t);

    assert_int_equal(t.told, 1);
    assert_string_equal(t.stage, "checking");
    take_result(o, "package");
}

static void nothing_is_called_back_from_within_a_call(void **state)
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

static void descriptors_reach_the_process(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, NULL);
    KILN_AUTO(fd) int fd = -1;
    must(fs_memfd("content", &fd, &f->err), f->err);
    must(fs_write_all(fd, bytes_of_text("from the client"), &f->err), f->err);
    t.task.job.content_fd = fd;

    struct transfer_outcome *o = run(f, &t);

    must(o->err.code, o->err);
    take_result(o, "from the client");
}

static void what_the_process_says_of_a_failure_is_the_outcome(void **state)
{
    expect_failure(*state, "damaged", KILN_CORRUPT, "row 7 is damaged");
}

static void a_process_that_dies_leaves_nothing(void **state)
{
    expect_failure(*state, "dies", KILN_IO,
                   "kiln-transfer died of SIGABRT (Aborted) while starting");
}

static void a_process_that_leaves_without_a_word_is_a_failure(void **state)
{
    expect_failure(*state, "leaves", KILN_IO, "exited with status 7");
}

static void a_process_that_talks_nonsense_is_killed(void **state)
{
    expect_failure(*state, "babbles", KILN_IO, "what is not an answer");
}

static void a_file_that_is_none_is_not_taken(void **state)
{
    expect_failure(*state, "links", KILN_IO, "left no file");
    expect_failure(*state, "lies", KILN_IO, "left no file");
}

static void a_name_that_leads_elsewhere_is_nonsense(void **state)
{
    expect_failure(*state, "escapes", KILN_IO, "what is not an answer");
}

static void an_outcome_counts_even_if_the_process_dies_after_it(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good, then dies");

    struct transfer_outcome *o = run(f, &t);

    must(o->err.code, o->err);
    take_result(o, "package");
}

static void a_transfer_takes_no_longer_than_it_may(void **state)
{
    struct fixture *f = *state;
    f->options.timeout_ms = 50;

    expect_failure(f, "hangs", KILN_TIMED_OUT, "took longer than");
}

static void a_running_transfer_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    open_transfers(f);
    transfers_start(f->transfers, &t.task);
    while (!t.told)
        loop_turn(f->loop);

    transfers_cancel(f->transfers, &t.task);
    wait_for(f, &t);

    assert_int_equal(t.task.outcome.err.code, KILN_CANCELLED);
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

static void a_transfer_that_is_being_started_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    struct task blockers[READERS];
    open_transfers(f);
    sem_init(&gate, 0, 0);
    for (size_t i = 0; i < READERS; i++) {
        blockers[i] = (struct task){ .work = wait_at_the_gate, .done = on_through };
        lanes_run(f->lanes, LANE_READ, &blockers[i]);
    }
    transfers_start(f->transfers, &t.task);
    while (lanes_out(f->lanes) <= READERS) /* until its folder waits to be made */
        loop_turn(f->loop);

    transfers_cancel(f->transfers, &t.task);
    for (size_t i = 0; i < READERS; i++)
        sem_post(&gate);
    wait_for(f, &t);
    while (lanes_out(f->lanes) > 0)
        loop_turn(f->loop);

    assert_int_equal(t.task.outcome.err.code, KILN_CANCELLED);
    assert_int_equal(t.told, 0);
    sem_destroy(&gate);
}

static void transfers_beyond_the_limit_wait_and_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    f->options.at_once = 1;
    struct transfer first = transfer_of(f, "hangs"), second = transfer_of(f, "hangs"),
                    third = transfer_of(f, "good");
    open_transfers(f);
    transfers_start(f->transfers, &first.task);
    transfers_start(f->transfers, &second.task);
    transfers_start(f->transfers, &third.task);
    while (!first.told)
        loop_turn(f->loop);
    assert_int_equal(transfers_out(f->transfers), 3);

    transfers_cancel(f->transfers, &second.task);
    wait_for(f, &second);
    assert_int_equal(second.task.outcome.err.code, KILN_CANCELLED);
    assert_int_equal(second.told + third.told, 0);
    transfers_cancel(f->transfers, &first.task);
    wait_for(f, &third);

    must(third.task.outcome.err.code, third.task.outcome.err);
    assert_int_equal(first.ended, 1);
    take_result(&third.task.outcome, "package");
}

static void several_run_at_once(void **state)
{
    struct fixture *f = *state;
    struct transfer first = transfer_of(f, "hangs"), second = transfer_of(f, "hangs");
    open_transfers(f);
    transfers_start(f->transfers, &first.task);
    transfers_start(f->transfers, &second.task);

    while (!first.told || !second.told)
        loop_turn(f->loop);

    transfers_stop(f->transfers);
    wait_for(f, &first);
    wait_for(f, &second);
}

static void cancelling_what_is_over_does_nothing(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");
    struct transfer_outcome *o = run(f, &t);

    transfers_cancel(f->transfers, &t.task);

    must(o->err.code, o->err);
    take_result(o, "package");
}

static void a_stop_ends_what_runs_and_what_waits(void **state)
{
    struct fixture *f = *state;
    f->options.at_once = 1;
    struct transfer first = transfer_of(f, "hangs"), second = transfer_of(f, "good"),
                    later = transfer_of(f, "good");
    open_transfers(f);
    transfers_start(f->transfers, &first.task);
    transfers_start(f->transfers, &second.task);
    while (!first.told)
        loop_turn(f->loop);

    transfers_stop(f->transfers);
    wait_for(f, &first);
    wait_for(f, &second);
    run(f, &later);

    assert_int_equal(first.task.outcome.err.code, KILN_UNAVAILABLE);
    assert_int_equal(second.task.outcome.err.code, KILN_UNAVAILABLE);
    assert_int_equal(later.task.outcome.err.code, KILN_UNAVAILABLE);
    assert_says(later.task.outcome.err.text, "shutting down");
}

static void closing_waits_for_what_runs(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "hangs");
    open_transfers(f);
    transfers_start(f->transfers, &t.task);
    while (!t.told)
        loop_turn(f->loop);

    close_transfers(f);

    assert_int_equal(t.ended, 1);
    assert_int_equal(t.task.outcome.err.code, KILN_UNAVAILABLE);
}

static void a_program_that_is_not_there_is_said_with_its_setting(void **state)
{
    struct fixture *f = *state;
    f->options.program = "/nonexistent/kiln-transfer";

    expect_failure(f, "good", KILN_UNAVAILABLE, "/nonexistent/kiln-transfer");
    expect_failure(f, "good", KILN_UNAVAILABLE, "setting transfer");
}

static void a_staging_folder_that_cannot_be_made_is_said(void **state)
{
    struct fixture *f = *state;
    struct transfer t = transfer_of(f, "good");
    t.task.job.staging = "/proc/nonexistent";

    struct transfer_outcome *o = run(f, &t);

    assert_int_not_equal(o->err.code, KILN_OK);
    assert_says(o->err.text, "/proc/nonexistent");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_transfer_leaves_one_file_in_staging),
        TEST(progress_is_passed_on),
        TEST(nothing_is_called_back_from_within_a_call),
        TEST(descriptors_reach_the_process),
        TEST(what_the_process_says_of_a_failure_is_the_outcome),
        TEST(a_process_that_dies_leaves_nothing),
        TEST(a_process_that_leaves_without_a_word_is_a_failure),
        TEST(a_process_that_talks_nonsense_is_killed),
        TEST(a_file_that_is_none_is_not_taken),
        TEST(a_name_that_leads_elsewhere_is_nonsense),
        TEST(an_outcome_counts_even_if_the_process_dies_after_it),
        TEST(a_transfer_takes_no_longer_than_it_may),
        TEST(a_running_transfer_can_be_cancelled),
        TEST(a_transfer_that_is_being_started_can_be_cancelled),
        TEST(transfers_beyond_the_limit_wait_and_can_be_cancelled),
        TEST(several_run_at_once),
        TEST(cancelling_what_is_over_does_nothing),
        TEST(a_stop_ends_what_runs_and_what_waits),
        TEST(closing_waits_for_what_runs),
        TEST(a_program_that_is_not_there_is_said_with_its_setting),
        TEST(a_staging_folder_that_cannot_be_made_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
