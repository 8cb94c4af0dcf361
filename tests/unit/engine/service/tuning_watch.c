/* SPDX-License-Identifier: MIT */
/* The counters by which clients learn that tuning records have changed. */
#include "tests/support/subordinate_ranges.h"
#include "tests/support/test_files.h"
#include "tests/unit/engine/service/tuning_fixture.h"

#include "engine/service/tuning/tuning_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>

static int ask_file(struct test_caller *c)
{
    const struct message_tuning_watch m = { .flags = 0 };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, tuning_watch, 7, &m);
    assert_int_equal(c->reply_count, 1);
    assert_int_equal(c->replies[0].type, MESSAGE_watched);
    assert_int_equal(c->replies[0].object_count, 1);
    struct reader r = reader_of(c->replies[0].body);
    assert_int_equal(message_watched_read(&r).size, TUNING_WATCH_SIZE);
    return c->replies[0].objects[0]->fd;
}

/* Reads the counter as a client does. */
static const _Atomic uint64_t *watch(struct test_caller *c)
{
    void *mapping = mmap(NULL, TUNING_WATCH_SIZE, PROT_READ, MAP_SHARED, ask_file(c), 0);
    assert_true(mapping != MAP_FAILED);
    return mapping;
}

static void put_for(struct users *f, struct test_caller *c, uint8_t tier)
{
    struct put put = perf_put("ConvAsm1x1U", "1,2", 0.5);
    put.m.tier = tier;
    tuning_put(f, c, &put);
}

TEST_F(users, a_users_record_moves_the_counter_of_that_user_alone)
{
    const _Atomic uint64_t *ann = watch(&f->ann), *bob = watch(&f->bob);
    uint64_t of_ann = *ann, of_bob = *bob;
    assert_true(of_ann != of_bob);
    put_for(f, &f->ann, TUNING_TIER_USER);
    assert_true(*ann != of_ann);
    assert_true(*bob == of_bob);
    of_ann = *ann;
    put_for(f, &f->bob, TUNING_TIER_USER);
    assert_true(*ann == of_ann);
    assert_true(*bob != of_bob);
}

TEST_F(users, a_record_of_the_host_moves_every_counter)
{
    const _Atomic uint64_t *ann = watch(&f->ann), *bob = watch(&f->bob);
    uint64_t of_ann = *ann, of_bob = *bob;
    put_for(f, &f->publisher, TUNING_TIER_HOST);
    assert_true(*ann != of_ann && *bob != of_bob);
    of_ann = *ann;
    of_bob = *bob;
    tuning_import_system(f);
    assert_true(*ann != of_ann && *bob != of_bob);
}

/* A look-up after the change finds the record, because the counter moves last. */
TEST_F(users, a_put_that_is_not_written_yet_moves_no_counter)
{
    const _Atomic uint64_t *ann = watch(&f->ann);
    uint64_t before = *ann;
    struct put put = perf_put("ConvAsm1x1U", "1,2", 0.5);
    tuning_send_put(f, &f->ann, &put, /* runs= */ false);
    assert_true(*ann == before);
    fake_executor_run_tasks(&f->engine.executor);
    assert_true(*ann != before);
    assert_int_equal(tuning_ask(f, &f->ann, TUNING_PERF, 0, 1).code, KILN_OK);
}

/* A file in place of the state directory's parent keeps kilnd from opening the databases. */
TEST_F(users, databases_that_open_late_move_every_counter)
{
    snprintf(f->file, sizeof(f->file), "%s/blocked", f->engine.directory);
    f->engine.options.state_directory = test_path(f->engine.directory, "blocked/state");
    tuning_write(f, "");
    users_reopen(f);
    const _Atomic uint64_t *ann = watch(&f->ann);
    uint64_t before = *ann;
    assert_int_equal(unlink(f->file), 0);
    f->engine.engine->tuning->retry_ns = 0;
    engine_tick(f->engine.engine);
    assert_true(*ann == before);
    fake_executor_run_tasks(&f->engine.executor);
    assert_non_null(f->engine.engine->tuning->databases);
    assert_true(*ann != before);
}

/* Look-ups then find stale records, or no longer find them. */
TEST_F(users, another_policy_for_stale_records_moves_every_counter)
{
    const _Atomic uint64_t *ann = watch(&f->ann);
    uint64_t before = *ann;
    f->engine.options.tuning_stale = TUNING_IGNORE;
    tuning_service_set_limits(f->engine.engine, &f->engine.options);
    assert_true(*ann != before);
}

static void expect_closed(int fd)
{
    assert_true(mmap(NULL, TUNING_WATCH_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
                MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 2l * TUNING_WATCH_SIZE), -1);
    assert_int_equal(
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, TUNING_WATCH_SIZE), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST_F(users, a_hostile_client_can_neither_write_nor_shrink_the_file)
{
    char path[64];
    int fd = ask_file(&f->ann);
    expect_closed(fd);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    assert_true(again >= 0);
    expect_closed(again);
    void *mapping = mmap(NULL, TUNING_WATCH_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(mapping != MAP_FAILED);
    assert_int_equal(mprotect(mapping, TUNING_WATCH_SIZE, PROT_READ | PROT_WRITE), -1);
    close(again);
}

TEST_F(users, a_users_connections_share_a_file_until_the_last_one_ends)
{
    struct test_caller again = { .fixture = NULL };
    const _Atomic uint64_t *first = watch(&f->ann);
    uint64_t before = *first;
    test_caller_connect(&again, &f->engine, 1000, ROLE_USE);
    const _Atomic uint64_t *second = watch(&again);
    assert_true(*second == before);
    test_caller_leave(&f->ann);
    put_for(f, &again, TUNING_TIER_USER);
    assert_true(*first == *second && *first != before);
    before = *first;
    test_caller_leave(&again);
    assert_true(*first == before);
    test_caller_connect(&again, &f->engine, 1000, ROLE_USE);
    assert_true(*watch(&again) != before);
    test_caller_leave(&again);
}

TEST_F(users, a_user_with_many_uids_gets_few_files)
{
    struct test_caller callers[TUNING_WATCHES_MAX_USER + 1] = { 0 };
    const struct message_tuning_watch m = { .flags = 0 };
    set_subordinate_ranges("ann:100000:65536\n");
    for (unsigned i = 0; i <= TUNING_WATCHES_MAX_USER; i++)
        test_caller_connect(&callers[i], &f->engine, 100000 + i, ROLE_USE);
    for (unsigned i = 0; i < TUNING_WATCHES_MAX_USER; i++)
        (void)ask_file(&callers[i]);
    test_caller_forget_replies(&callers[TUNING_WATCHES_MAX_USER]);
    SEND_MESSAGE(&callers[TUNING_WATCHES_MAX_USER], tuning_watch, 7, &m);
    assert_reply_refuses(&callers[TUNING_WATCHES_MAX_USER], 0, KILN_BUSY, "watch");
    (void)ask_file(&f->bob);
    for (unsigned i = 0; i <= TUNING_WATCHES_MAX_USER; i++)
        test_caller_leave(&callers[i]);
    set_subordinate_ranges("");
}

/* kilnd ends if it has no descriptors left, and has 512 in reserve for such files. */
TEST_F(users, all_users_together_get_few_files)
{
    enum { FILES = 256 };
    static struct test_caller callers[FILES + 1];
    const struct message_tuning_watch m = { .flags = 0 };
    for (unsigned i = 0; i <= FILES; i++)
        test_caller_connect(&callers[i], &f->engine, 3000 + i, ROLE_USE);
    for (unsigned i = 0; i < FILES; i++)
        (void)ask_file(&callers[i]);
    SEND_MESSAGE(&callers[FILES], tuning_watch, 7, &m);
    assert_reply_refuses(&callers[FILES], 0, KILN_BUSY, "watch");
    test_caller_leave(&callers[0]);
    (void)ask_file(&callers[FILES]);
    for (unsigned i = 1; i <= FILES; i++)
        test_caller_leave(&callers[i]);
}

TEST_F(users, an_unmapped_user_has_no_counter)
{
    const struct message_tuning_watch m = { .flags = 0 };
    f->ann.base.is_anonymous = true;
    test_caller_forget_replies(&f->ann);
    SEND_MESSAGE(&f->ann, tuning_watch, 7, &m);
    assert_reply_refuses(&f->ann, 0, KILN_DENIED, "tuning_watch");
}
