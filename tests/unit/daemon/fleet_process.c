/* SPDX-License-Identifier: MIT */
#include "daemon/workers/fleet_process.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "tests/support/launch_service.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URL "https://fleet.example/tree"
#define MANY 1000u
#define TEXT_MAX 96

static uint64_t passed_ms;

WRAP(uint64_t, loop_now_ms, const struct loop *loop)
{
    return __real_loop_now_ms(loop) + passed_ms;
}

struct fixture {
    struct loop *loop;
    struct work_queues *work_queues;
    struct fleet_process *process;
    struct fleet_process_options options;
    struct loop_owner owner;
    struct loop_timer tick; /* ends each loop iteration even if nothing else happens */
    struct launch_service unit;
    bool closed;
    struct kiln_err err;
};

struct asked {
    struct fleet_access access;
    unsigned ended, slowed;
};

SET_UP(set_up)
{
    passed_ms = 0;
    f->loop = open_ticking_loop(&f->tick, &f->owner);
    f->work_queues = open_work_queues(f->loop, 2);
    f->options = (struct fleet_process_options){ .loop = f->loop,
                                                 .work_queues = f->work_queues,
                                                 .program = FAKE_FLEET,
                                                 .service = "",
                                                 .url = URL };
}

static void open_process(struct fixture *f)
{
    if (!f->process)
        must(fleet_process_create(&f->options, &f->process, &f->err), f->err);
}

static void on_closed(void *context) { ((struct fixture *)context)->closed = true; }

TEAR_DOWN(tear_down)
{
    loop_timer_close(&f->tick);
    if (!f->process)
        return;
    fleet_process_close(f->process, on_closed, f);
    assert_false(f->closed);
    LOOP_TO_END(f->loop, "the process of the fleet to close");
    assert_true(f->closed);
}

FIXTURE(fleet, set_up, tear_down);

static void on_done(struct fleet_access *access) { ((struct asked *)(void *)access)->ended++; }

static void on_slow(struct fleet_access *access) { ((struct asked *)(void *)access)->slowed++; }

static void ask(struct fixture *f, struct asked *asked, const char *name)
{
    *asked =
        (struct asked){ .access = { .size_max = 100, .slow = on_slow, .done = on_done, .fd = -1 } };
    snprintf(asked->access.name, sizeof(asked->access.name), "%s", name);
    open_process(f);
    fleet_process_access(f->process, &asked->access);
    assert_int_equal(asked->ended, 0); /* no callback runs within the call */
}

static void wait_for_end(struct fixture *f, const struct asked *asked)
{
    LOOP_UNTIL(f->loop, asked->ended);
    assert_int_equal(asked->ended, 1);
}

static void expect_end(struct fixture *f, const char *name, enum fleet_end end)
{
    struct asked asked;
    ask(f, &asked, name);
    wait_for_end(f, &asked);
    assert_int_equal(asked.access.end, end);
    assert_int_equal(asked.access.fd, -1);
    assert_int_equal(fleet_process_out(f->process), 0);
}

static void take_text(const struct asked *asked, char text[TEXT_MAX])
{
    assert_int_equal(asked->access.end, FLEET_END_DONE);
    ssize_t size = fs_read_at(asked->access.fd, text, TEXT_MAX - 1, 0);
    assert_true(size >= 0);
    text[size] = '\0';
    close(asked->access.fd);
}

static void expect_text(struct fixture *f, const char *name, const char *expected)
{
    char text[TEXT_MAX];
    struct asked asked;
    ask(f, &asked, name);
    wait_for_end(f, &asked);
    take_text(&asked, text);
    assert_string_equal(text, expected);
}

static long process_id(struct fixture *f)
{
    char text[TEXT_MAX];
    struct asked asked;
    ask(f, &asked, "f/pid");
    wait_for_end(f, &asked);
    take_text(&asked, text);
    return strtol(text, NULL, 10);
}

TEST_F(fleet, a_file_comes_from_the_process)
{
    expect_text(f, "f/good", "f/good");
    expect_text(f, "f/url", URL);
}

TEST_F(fleet, a_process_that_was_never_needed_closes)
{
    open_process(f);
    assert_int_equal(fleet_process_out(f->process), 0);
}

TEST_F(fleet, a_range_is_requested)
{
    char text[TEXT_MAX];
    struct asked asked = {
        .access = { .name = "f/range", .offset = 7, .size = 9, .done = on_done, .fd = -1 }
    };
    open_process(f);
    fleet_process_access(f->process, &asked.access);
    wait_for_end(f, &asked);
    take_text(&asked, text);
    assert_string_equal(text, "7 9 0");
}

TEST_F(fleet, one_process_serves_all_requests) { assert_int_equal(process_id(f), process_id(f)); }

TEST_F(fleet, the_end_of_a_request_comes_from_the_process)
{
    expect_end(f, "f/absent", FLEET_END_ABSENT);
}

TEST_F(fleet, a_success_without_a_file_is_malformed)
{
    expect_end(f, "f/no-file", FLEET_END_MALFORMED);
}

TEST_F(fleet, a_process_that_answers_what_was_not_asked_is_replaced)
{
    expect_end(f, "f/unknown", FLEET_END_STOPPED);
    expect_text(f, "f/good", "f/good");
}

TEST_F(fleet, more_requests_than_a_socket_holds_are_answered)
{
    static struct asked asked[MANY];
    char name[32], text[TEXT_MAX];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "f/%u", i);
        ask(f, &asked[i], name);
    }
    for (unsigned i = 0; i < MANY; i++) {
        wait_for_end(f, &asked[i]);
        take_text(&asked[i], text);
        assert_string_equal(text, asked[i].access.name);
    }
}

static void add(struct fixture *f, const char *name, const char *content)
{
    struct asked asked = { .access = { .is_put = true, .done = on_done, .fd = -1 } };
    KILN_AUTO(fd) int fd = -1;
    f->options.writes = true;
    must(fs_memfd("record", &fd, &f->err), f->err);
    must(fs_write_all(fd, bytes_of_text(content), &f->err), f->err);
    asked.access.fd = fd;
    snprintf(asked.access.name, sizeof(asked.access.name), "%s", name);
    open_process(f);
    fleet_process_access(f->process, &asked.access);
    wait_for_end(f, &asked);
    assert_int_equal(asked.access.end, FLEET_END_DONE);
    assert_int_equal(asked.access.fd, fd);
    assert_int_equal(lseek(fd, 0, SEEK_END), strlen(content)); /* the descriptor is still open */
}

TEST_F(fleet, a_file_is_added)
{
    add(f, "f/add", "a record");
    expect_text(f, "f/added", "a record");
}

TEST_F(fleet, a_file_in_the_answer_to_an_addition_is_closed)
{
    add(f, "f/add-and-more", "a record");
}

TEST_F(fleet, a_list_with_more_pages_is_partial)
{
    char text[TEXT_MAX];
    struct asked asked = { .access = { .name = "f/page", .is_list = true, .done = on_done } };
    open_process(f);
    fleet_process_access(f->process, &asked.access);
    wait_for_end(f, &asked);
    take_text(&asked, text);
    assert_string_equal(text, "one 1 0\n");
    assert_true(asked.access.is_partial);
}

TEST_F(fleet, a_process_that_ends_is_replaced_with_the_next_request)
{
    expect_end(f, "f/dies", FLEET_END_STOPPED);
    expect_text(f, "f/good", "f/good");
    expect_end(f, "f/leaves", FLEET_END_STOPPED);
    expect_text(f, "f/good", "f/good");
}

TEST_F(fleet, a_process_that_ends_ends_all_requests)
{
    struct asked first, second;
    ask(f, &first, "f/silent");
    ask(f, &second, "f/dies");
    wait_for_end(f, &first);
    wait_for_end(f, &second);
    assert_int_equal(first.access.end, FLEET_END_STOPPED);
    assert_int_equal(second.access.end, FLEET_END_STOPPED);
}

TEST_F(fleet, a_process_that_sends_rubbish_is_replaced)
{
    expect_end(f, "f/babbles", FLEET_END_STOPPED);
    expect_text(f, "f/good", "f/good");
}

TEST_F(fleet, a_program_that_is_missing_ends_each_request)
{
    f->options.program = "/nonexistent";
    expect_end(f, "f/good", FLEET_END_STOPPED);
    expect_end(f, "f/good", FLEET_END_STOPPED);
}

TEST_F(fleet, an_exhausted_budget_is_reported_once)
{
    struct asked asked = { .access = { .name = "f/silent",
                                       .budget_ms = 20,
                                       .slow = on_slow,
                                       .done = on_done,
                                       .fd = -1 } };
    open_process(f);
    fleet_process_access(f->process, &asked.access);
    LOOP_UNTIL(f->loop, asked.slowed);
    assert_true(asked.access.is_slow);
    expect_text(f, "f/good", "f/good");
    assert_int_equal(asked.slowed, 1);
    assert_int_equal(asked.ended, 0); /* the request may still be answered */
    fleet_process_stop(f->process);
    wait_for_end(f, &asked);
    assert_int_equal(asked.access.end, FLEET_END_STOPPED);
}

static void expect_hang(struct fixture *f, const char *name)
{
    struct asked asked;
    long before = process_id(f);
    ask(f, &asked, name);
    passed_ms += FLEET_ACCESS_MAX_MS + 6000;
    wait_for_end(f, &asked);
    assert_int_equal(asked.access.end, FLEET_END_TIMED_OUT);
    assert_int_not_equal(process_id(f), before);
}

TEST_F(fleet, a_process_that_hangs_is_replaced)
{
    expect_hang(f, "f/silent");
    expect_hang(f, "f/hangs");
}

TEST_F(fleet, requests_that_a_hanging_process_does_not_take_end)
{
    static struct asked asked[MANY];
    expect_text(f, "f/good", "f/good");
    ask(f, &asked[0], "f/hangs");
    for (unsigned i = 1; i < MANY; i++)
        ask(f, &asked[i], "f/good");
    passed_ms += FLEET_ACCESS_MAX_MS + 6000;
    for (unsigned i = 0; i < MANY; i++) {
        wait_for_end(f, &asked[i]);
        assert_int_equal(asked[i].access.end, FLEET_END_TIMED_OUT);
    }
    expect_text(f, "f/good", "f/good");
}

struct stopping {
    struct asked asked;
    struct fleet_process *process;
};

static void stop_process(struct fleet_access *access)
{
    on_slow(access);
    fleet_process_stop(((struct stopping *)(void *)access)->process);
}

TEST_F(fleet, a_slow_request_may_change_the_other_requests)
{
    static struct asked asked[MANY];
    static struct stopping slow[2];
    ask(f, &asked[0], "f/hangs");
    for (unsigned i = 1; i < MANY; i++)
        ask(f, &asked[i], "f/good");
    for (unsigned i = 0; i < 2; i++) {
        ask(f, &slow[i].asked, "f/good");
        slow[i].process = f->process;
        slow[i].asked.access.slow = stop_process;
        slow[i].asked.access.budget_ms = 1;
    }
    wait_for_end(f, &slow[0].asked);
    wait_for_end(f, &slow[1].asked);
    assert_int_equal(slow[0].asked.slowed + slow[1].asked.slowed, 1);
    for (unsigned i = 0; i < MANY; i++)
        wait_for_end(f, &asked[i]);
}

TEST_F(fleet, after_a_stop_no_process_is_started)
{
    struct asked asked;
    ask(f, &asked, "f/silent");
    fleet_process_stop(f->process);
    assert_int_equal(asked.ended, 0);
    wait_for_end(f, &asked);
    assert_int_equal(asked.access.end, FLEET_END_STOPPED);
    expect_end(f, "f/good", FLEET_END_STOPPED);
}

TEST_F(fleet, requests_end_when_the_process_is_closed)
{
    static struct asked asked;
    ask(f, &asked, "f/silent");
    fleet_process_close(f->process, on_closed, f);
    LOOP_UNTIL(f->loop, f->closed);
    assert_int_equal(asked.ended, 1);
    f->process = NULL;
}

TEST_F(fleet, a_unit_may_start_the_process)
{
    launch_service_start(&f->unit, test_directory(), KILN_LAUNCH, FAKE_FLEET);
    f->options.service = f->unit.path;
    f->options.program = "/nonexistent";
    f->options.user = (struct worker_user){ .uid = getuid(), .gid = getgid() };
    expect_text(f, "f/good", "f/good");
}
