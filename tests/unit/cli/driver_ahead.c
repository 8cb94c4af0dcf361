/* SPDX-License-Identifier: MIT */

#include "cli/driver/ahead.h"

#include "tests/support/test.h"
#include "tests/support/wait.h"
#include <kiln/solutions.h>

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCHES_MAX 4
#define PROBLEMS_MAX 8

struct asked {
    struct kiln_plan_options options;
    struct kiln_problem problems[PROBLEMS_MAX];
    char solver[64];
    size_t count;
};

/* A background thread of the code under test records its batches here. It then posts
 * |batch_done|, on which the test waits. */
static struct fake {
    struct asked asked[BATCHES_MAX];
    size_t batches;
    int code;
    bool endless; /* a batch goes on until its callback asks it to stop */
    sem_t batch_done;
    atomic_uint open, answers;
    int stopped_with;
} fake;

int kiln_client_open(const struct kiln_client_options *options, struct kiln_client **ret_client,
                     struct kiln_error *err)
{
    (void)err;
    assert_string_equal(options->socket_path, "/nonexistent/sock");
    atomic_fetch_add(&fake.open, 1);
    *ret_client = (void *)&fake;
    return KILN_E_OK;
}

void kiln_client_close(struct kiln_client *client)
{
    if (client)
        atomic_fetch_sub(&fake.open, 1);
}

const char *kiln_device_target(const struct kiln_device *device)
{
    (void)device;
    return "gfx90a";
}
const char *kiln_device_database_id(const struct kiln_device *device)
{
    (void)device;
    return "gfx90a68";
}
const char *kiln_device_driver(const struct kiln_device *device)
{
    (void)device;
    return "HIP 6";
}

int kiln_plan_batch(struct kiln_client *client, const struct kiln_plan_batch *batch,
                    struct kiln_error *err)
{
    struct asked *asked = &fake.asked[fake.batches++];
    assert_ptr_equal(client, &fake);
    assert_true(fake.batches <= BATCHES_MAX && batch->count <= PROBLEMS_MAX);
    const char *solver = batch->options->solver;
    *asked = (struct asked){ .options = *batch->options, .count = batch->count };
    memcpy(asked->problems, batch->problems, batch->count * sizeof(*batch->problems));
    snprintf(asked->solver, sizeof(asked->solver), "%s", solver ? solver : "");
    struct kiln_error failure = { .code = KILN_E_COMPILE_FAILED, .text = "no" };
    for (size_t i = 0; i < batch->count || fake.endless; i++) {
        atomic_fetch_add(&fake.answers, 1);
        fake.stopped_with = batch->ready(batch->context, i % batch->count, NULL, &failure);
        if (fake.stopped_with)
            break;
        sched_yield();
    }
    err->code = fake.code;
    sem_post(&fake.batch_done);
    return fake.code;
}

/* Only the problem with batch size 1 has a record. */
int kiln_solutions_get(struct kiln_client *client, const struct kiln_problem *problem,
                       const struct kiln_plan_options *options,
                       struct kiln_solutions **ret_solutions, struct kiln_error *err)
{
    (void)client, (void)options, (void)err;
    static uint32_t recorded, unrecorded = 2;
    *ret_solutions = (void *)(problem->n == 1 ? &recorded : &unrecorded);
    return KILN_E_OK;
}

unsigned kiln_solutions_count(const struct kiln_solutions *solutions) { return solutions ? 2 : 0; }

int kiln_solutions_at(const struct kiln_solutions *solutions, unsigned index,
                      struct kiln_solution *ret_solution, struct kiln_error *err)
{
    (void)err;
    bool is_recorded = *(const uint32_t *)(const void *)solutions == 0;
    *ret_solution = (struct kiln_solution){ .size = sizeof(*ret_solution),
                                            .solver = index ? "ConvB" : "ConvA",
                                            .find_ms = is_recorded ? 1.5 : 0 };
    return KILN_E_OK;
}

void kiln_solutions_free(struct kiln_solutions *solutions) { assert_non_null(solutions); }

struct fixture {
    struct bench bench;
    struct session_options session;
    struct line_file file;
    struct ahead *ahead;
};

SET_UP(set_up)
{
    memset(&fake, 0, sizeof(fake));
    sem_init(&fake.batch_done, 0, 0);
    f->bench.toolchain = "hiprtc";
    f->session.socket = "/nonexistent/sock";
}

TEAR_DOWN(tear_down)
{
    ahead_stop(f->ahead);
    line_file_done(&f->file);
    sem_destroy(&fake.batch_done);
    assert_int_equal(fake.open, 0);
}

FIXTURE(driver_ahead, set_up, tear_down);

static void start_ahead(struct fixture *f, const char *text)
{
    char path[] = "/tmp/kiln_cli_ahead_XXXXXX";
    struct kiln_error err = { 0 };
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    must(line_file_read(path, &f->file, &err), err);
    unlink(path);
    f->ahead = ahead_start(&f->bench, &f->session, &f->file);
}

static void wait_for_batches(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        WAIT_FOR(sem_trywait(&fake.batch_done) == 0);
}

TEST_F(driver_ahead, ahead_requests_the_whole_file_in_one_batch)
{
    start_ahead(f, "conv -n 1 -F 1\nconv -n 2 -F 3\n# note\nconv -n 1 -F 1 -t 1\n");
    wait_for_batches(1);

    const struct asked *asked = &fake.asked[0];
    assert_int_equal(fake.batches, 1);
    assert_int_equal(asked->count, 3); /* the fourth problem repeats another one */
    assert_int_equal(asked->problems[0].n, 1);
    assert_int_equal(asked->problems[2].direction, KILN_BACKWARD_DATA);
    assert_int_equal(asked->options.priority, KILN_PREFETCH);
    assert_int_equal(asked->options.no_objects, 1);
    assert_string_equal(asked->options.target, "gfx90a");
    assert_string_equal(asked->options.database_id, "gfx90a68");
    assert_string_equal(asked->options.driver, "HIP 6");
    assert_string_equal(asked->options.toolchain, "hiprtc");
    assert_null(asked->options.solver);
    assert_int_equal(asked->options.timeout_ms, 3 * 120000);
}

TEST_F(driver_ahead, each_named_solver_has_a_separate_batch)
{
    start_ahead(f, "conv -n 1 -F 1\nconv -n 1 -F 1 -S ConvDirectNaive\nconv -n 2 -F 1\n");
    wait_for_batches(2);

    assert_int_equal(fake.asked[0].count, 2);
    assert_string_equal(fake.asked[0].solver, "");
    assert_int_equal(fake.asked[1].count, 1);
    assert_string_equal(fake.asked[1].solver, "ConvDirectNaive");
}

TEST_F(driver_ahead, ahead_skips_lines_that_the_run_will_refuse)
{
    start_ahead(f, "pool -n 1\nconv -S 85\n"
                   "conv -n 4000000 -c 1 -k 1 -H 46000 -W 46000 -F 1\nconv -n 2 -F 1\n");
    wait_for_batches(1);

    assert_int_equal(fake.asked[0].count, 1);
    assert_int_equal(fake.asked[0].problems[0].n, 2);
}

TEST_F(driver_ahead, a_file_without_problems_sends_no_request)
{
    start_ahead(f, "pool -n 1\n");
    assert_null(f->ahead);
    assert_int_equal(fake.open, 0);
}

TEST_F(driver_ahead, ahead_multiplies_the_timeout_by_the_problems_up_to_half_an_hour)
{
    f->session.timeout = (struct option_number){ .value = 5000, .given = true };
    start_ahead(f, "conv -n 1 -F 1\nconv -n 2 -F 1\n");
    wait_for_batches(1);
    assert_int_equal(fake.asked[0].options.timeout_ms, 10000);
    ahead_stop(f->ahead);
    line_file_done(&f->file);

    f->session.timeout.value = 60 * 60 * 1000;
    start_ahead(f, "conv -n 1 -F 1\n");
    wait_for_batches(1);
    assert_int_equal(fake.asked[1].options.timeout_ms, 30 * 60 * 1000);
}

TEST_F(driver_ahead, ahead_ends_after_a_failure_and_reports_nothing)
{
    fake.code = KILN_E_UNAVAILABLE;
    start_ahead(f, "conv -n 1 -F 1\nconv -n 1 -F 1 -S ConvDirectNaive\n");
    wait_for_batches(1);
    ahead_stop(f->ahead);
    f->ahead = NULL;
    assert_int_equal(fake.batches, 1);
    assert_int_equal(fake.stopped_with, 0);
}

TEST_F(driver_ahead, every_solver_that_find_will_time_is_requested)
{
    struct kiln_conv_options find = { .size = sizeof(find), .mode = KILN_FIND_HYBRID };
    f->bench.find = &find;
    start_ahead(f, "conv -n 1 -F 1\nconv -n 2 -F 1\nconv -n 3 -F 1 -S ConvB\n");
    wait_for_batches(3);
    assert_string_equal(fake.asked[0].solver, "");
    assert_string_equal(fake.asked[1].solver, "ConvB");
    assert_int_equal(fake.asked[1].count, 2);
    assert_string_equal(fake.asked[2].solver, "ConvA");
    assert_int_equal(fake.asked[2].count, 1);
    assert_int_equal(fake.asked[2].problems[0].n, 2);
}

TEST_F(driver_ahead, normal_find_times_every_solver_despite_records)
{
    struct kiln_conv_options find = { .size = sizeof(find), .mode = KILN_FIND_NORMAL };
    f->bench.find = &find;
    start_ahead(f, "conv -n 1 -F 1\n");
    wait_for_batches(3);
    assert_string_equal(fake.asked[1].solver, "ConvA");
    assert_string_equal(fake.asked[2].solver, "ConvB");
}

TEST_F(driver_ahead, ahead_stops_at_the_next_answer)
{
    fake.endless = true;
    start_ahead(f, "conv -n 1 -F 1\nconv -n 1 -F 1 -S ConvDirectNaive\n");
    WAIT_FOR(atomic_load(&fake.answers) >= 10);

    ahead_stop(f->ahead);
    f->ahead = NULL;

    assert_int_not_equal(fake.stopped_with, 0);
    assert_int_equal(fake.batches, 1);
}
