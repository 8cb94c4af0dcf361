/* SPDX-License-Identifier: MIT */
/* Clients keep the files of kernels open. Tests which user is charged for the memory of these
 * files, and what a user above the limit gets. */
#include "tests/unit/engine/service/users_fixture.h"

#include "common/protocol/limits.h"
#include "engine/service/budget.h"
#include "engine/service/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (128u << 10)
#define MANY 300 /* number of kernels, more than the hot set can hold */

static uint8_t content[SIZE];

struct files {
    int fds[MANY];
    unsigned count;
};

static void close_files(struct files *files)
{
    while (files->count > 0)
        close(files->fds[--files->count]);
}

static void receive(struct test_caller *c, struct files *files)
{
    for (size_t i = 0; i < c->reply_count; i++)
        for (size_t k = 0; files && k < c->replies[i].object_count; k++)
            files->fds[files->count++] = dup(c->replies[i].objects[k]->fd);
    test_caller_forget_replies(c);
}

static const char *program(unsigned number)
{
    static char name[32];
    snprintf(name, sizeof(name), "k%u.cl", number);
    return name;
}

static struct message_result fetch_number(struct users *f, struct test_caller *c, unsigned number)
{
    memcpy(content, &number, sizeof(number));
    fetch_program(c, 1, program(number));
    finish_compiles(f, bytes_of(content, SIZE));
    return last_result(c);
}

static ino_t file_number(int fd)
{
    struct stat seen;
    assert_int_equal(fstat(fd, &seen), 0);
    return seen.st_ino;
}

static void limit_held(struct users *f, uint64_t bytes)
{
    f->engine.options.held_limit_bytes_uid = bytes;
    users_reopen(f);
}

static uint64_t held_bytes(struct users *f) { return users_stat(f, "held_bytes"); }

TEST_F(users, all_processes_of_one_user_share_an_object)
{
    struct test_caller ranks[8];
    struct files files = { .count = 0 };
    for (unsigned i = 0; i < 8; i++) {
        test_caller_connect(&ranks[i], &f->engine, f->ann.base.uid, ROLE_USE);
        assert_int_equal(fetch_number(f, &ranks[i], 1).code, KILN_OK);
        receive(&ranks[i], &files);
        assert_int_equal(file_number(files.fds[i]), file_number(files.fds[0]));
    }
    assert_int_equal(held_bytes(f), SIZE);
    close_files(&files);
    for (unsigned i = 0; i < 8; i++)
        test_caller_leave(&ranks[i]);
}

TEST_F(users, another_user_gets_a_copy_of_a_hot_object)
{
    struct files ann = { .count = 0 }, bob = { .count = 0 };
    (void)fetch_number(f, &f->ann, 1);
    receive(&f->ann, &ann);
    struct message_result r = fetch_number(f, &f->bob, 1);
    assert_int_equal(r.code, KILN_OK);
    assert_int_equal(r.tier, TIER_HOT);
    BUFFER_AUTO struct buffer got;
    buffer_init(&got, SIZE);
    reply_object(&f->bob, 0, 0, &got);
    assert_int_equal(got.size, SIZE);
    assert_memory_equal(got.data, content, SIZE);
    receive(&f->bob, &bob);

    assert_int_not_equal(file_number(bob.fds[0]), file_number(ann.fds[0]));
    assert_int_equal(held_bytes(f), 2 * SIZE);
    assert_int_equal(users_stat(f, "compiles"), 1);
    assert_int_equal(users_stat(f, "hits.hot"), 1);
    close_files(&ann);
    (void)fetch_number(f, &f->bob, 1);
    assert_int_equal(users_stat(f, "hits.hot"), 2);
    engine_tick(f->engine.engine);
    assert_int_equal(held_bytes(f), 2 * SIZE);
    close_files(&bob);
}

static void fetch_after_ann(struct users *f, unsigned number, size_t size)
{
    uint8_t *object = calloc(1, size);
    assert_non_null(object);
    fetch_program(&f->ann, 1, program(number));
    finish_compiles(f, bytes_of(object, size));
    free(object);
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_fetch_source(&f->bob, 1, program(number), PRIORITY_INTERACTIVE);
}

static bool is_copy_brief(struct users *f, unsigned number, size_t size)
{
    fetch_after_ann(f, number, size);
    assert_int_equal(count_tasks(f), 1);
    bool is_brief = LIST_FIRST(&f->engine.executor.tasks, struct task, item.link)->is_brief;
    fake_executor_run_tasks(&f->engine.executor);
    return is_brief;
}

TEST_F(users, only_copies_of_small_objects_may_use_the_thread_of_brief_tasks)
{
    f->engine.options.hot_limit_bytes = 8u << 20;
    users_reopen(f);
    assert_true(is_copy_brief(f, 1, SIZE));
    assert_false(is_copy_brief(f, 2, 2 << 20));
}

#define LARGE (9u << 20)

static void fetch_large_after_ann(struct users *f)
{
    f->engine.options.hot_limit_bytes = 2 * LARGE;
    users_reopen(f);
    fetch_after_ann(f, 1, LARGE);
}

TEST_F(users, a_large_copy_is_charged_and_made_in_steps_of_four_mebibytes)
{
    fetch_large_after_ann(f);
    for (unsigned step = 0; step < 3; step++) {
        assert_int_equal(f->bob.reply_count, 0);
        assert_int_equal(count_tasks(f), 1);
        assert_true(budget_taken(f->engine.engine->budget) >= LARGE);
        assert_true(fake_executor_run_task(&f->engine.executor));
    }
    fake_executor_run_tasks(&f->engine.executor);
    assert_int_equal(last_result(&f->bob).code, KILN_OK);
    assert_int_equal(budget_taken(f->engine.engine->budget), 0);
}

TEST_F(users, a_large_copy_ends_between_two_steps_when_its_user_leaves)
{
    fetch_large_after_ann(f);
    assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(count_tasks(f), 1);
    test_caller_leave(&f->bob);
    assert_int_equal(count_tasks(f), 0);
    assert_int_equal(budget_taken(f->engine.engine->budget), 0);
}

TEST_F(users, a_large_copy_beyond_the_waiting_bytes_of_its_user_is_refused)
{
    f->engine.options.queue_bytes_uid = LARGE;
    fetch_large_after_ann(f);
    assert_int_equal(count_tasks(f), 0);
    assert_int_equal(last_result(&f->bob).code, KILN_BUSY);
    assert_int_equal(budget_taken(f->engine.engine->budget), 0);
}

TEST_F(users, users_who_fetch_an_object_in_turns_share_one_copy_each)
{
    struct files ann = { .count = 0 }, bob = { .count = 0 };
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(fetch_number(f, &f->ann, 1).code, KILN_OK);
        receive(&f->ann, &ann);
        assert_int_equal(fetch_number(f, &f->bob, 1).code, KILN_OK);
        receive(&f->bob, &bob);
        assert_int_equal(file_number(ann.fds[i]), file_number(ann.fds[0]));
        assert_int_equal(file_number(bob.fds[i]), file_number(bob.fds[0]));
    }
    assert_int_equal(held_bytes(f), 2 * SIZE);
    assert_int_equal(users_stat(f, "hot_objects"), 2);
    close_files(&ann);
    close_files(&bob);
}

TEST_F(users, a_copy_of_an_object_that_was_removed_meanwhile_is_not_hot)
{
    fetch_program(&f->ann, 1, program(1));
    fetch_program(&f->bob, 1, program(1));
    hot_set_clear(f->engine.engine->hot);
    finish_compiles(f, bytes_of(content, SIZE));
    assert_int_equal(last_result(&f->bob).code, KILN_OK);
    assert_int_equal(users_stat(f, "hot_objects"), 0);
}

TEST_F(users, users_who_wait_for_one_compile_get_different_files)
{
    struct files files = { .count = 0 };
    fetch_program(&f->ann, 1, program(1));
    fetch_program(&f->bob, 1, program(1));
    fetch_program(&f->bob, 2, program(1));
    finish_compiles(f, bytes_of(content, SIZE));
    receive(&f->ann, &files);
    receive(&f->bob, &files);
    assert_int_equal(files.count, 3);
    assert_int_not_equal(file_number(files.fds[0]), file_number(files.fds[1]));
    assert_int_equal(file_number(files.fds[1]), file_number(files.fds[2]));
    assert_int_equal(users_stat(f, "compiles"), 1);
    close_files(&files);
}

TEST_F(users, a_small_object_that_is_sent_as_a_file_is_copied_for_another_user)
{
    struct files files = { .count = 0 };
    struct digest key = compile_program(&f->ann, "small.cl");
    const struct message_fetch m = { .key = key };
    receive(&f->ann, &files);
    SEND_MESSAGE(&f->bob, fetch, 1, &m);
    receive(&f->bob, &files);
    assert_int_equal(files.count, 2);
    assert_int_not_equal(file_number(files.fds[0]), file_number(files.fds[1]));
    assert_int_equal(held_bytes(f), 2 * (64 << 10));
    SEND_MESSAGE(&f->bob, fetch, 2, &m);
    receive(&f->bob, &files);
    assert_int_equal(file_number(files.fds[2]), file_number(files.fds[1]));
    assert_int_equal(held_bytes(f), 2 * (64 << 10));
    close_files(&files);
}

TEST_F(users, a_copy_is_not_made_if_its_user_leaves)
{
    (void)fetch_number(f, &f->ann, 1);
    fake_executor_run_tasks(&f->engine.executor);
    test_caller_fetch_source(&f->bob, 1, program(1), PRIORITY_INTERACTIVE);
    assert_int_equal(count_tasks(f), 1);
    test_caller_leave(&f->bob);
    assert_int_equal(count_tasks(f), 0);
}

TEST_F(users, a_user_who_keeps_too_much_is_refused_and_others_are_not)
{
    struct files ann = { .count = 0 }, bob = { .count = 0 };
    limit_held(f, 4 * SIZE);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(fetch_number(f, &f->ann, i).code, KILN_OK);
        receive(&f->ann, &ann);
    }
    struct message_result r = fetch_number(f, &f->ann, 4);
    assert_int_equal(r.code, KILN_BUSY);
    KILN_AUTO(mem) char *text = bytes_to_text(r.text);
    assert_says(text, "hot_limit");
    assert_int_equal(r.descriptor, NO_DESCRIPTOR);
    assert_int_equal(f->ann.replies[0].object_count, 0);
    assert_int_equal(fetch_number(f, &f->bob, 4).code, KILN_OK);
    receive(&f->bob, &bob);
    assert_int_equal(held_bytes(f), 5 * SIZE);

    close(ann.fds[--ann.count]);
    test_caller_forget_replies(&f->ann);
    assert_int_equal(fetch_number(f, &f->ann, 5).code, KILN_OK);
    receive(&f->ann, &ann);
    close_files(&ann);
    close_files(&bob);
}

TEST_F(users, a_user_who_keeps_too_much_still_gets_small_kernels_and_results)
{
    struct files ann = { .count = 0 };
    limit_held(f, SIZE);
    (void)fetch_number(f, &f->ann, 1);
    receive(&f->ann, &ann);
    assert_int_equal(fetch_number(f, &f->ann, 2).code, KILN_BUSY);
    test_caller_forget_replies(&f->ann);
    const struct message_fetch_source unsent = { .flags = FETCH_NO_OBJECT,
                                                 .target = bytes_of_text(FIXTURE_TARGET),
                                                 .program = bytes_of_text(program(2)),
                                                 .source = bytes_of_text("kernel void k() {}") };
    SEND_MESSAGE(&f->ann, fetch_source, 2, &unsent);
    assert_int_equal(last_result(&f->ann).code, KILN_OK);

    fetch_program(&f->bob, 1, "small.cl");
    finish_compile(f, "small");
    const struct message_fetch small = { .key = last_result(&f->bob).key, .inline_limit = 1000 };
    test_caller_forget_replies(&f->ann);
    SEND_MESSAGE(&f->ann, fetch, 3, &small);
    assert_int_equal(last_result(&f->ann).code, KILN_OK);
    close_files(&ann);
}

TEST_F(users, closed_kernels_make_space_for_more)
{
    limit_held(f, 4 * SIZE);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(fetch_number(f, &f->ann, i).code, KILN_OK);
        receive(&f->ann, NULL);
    }
    assert_true(held_bytes(f) <= 4 * SIZE);
}

TEST_F(users, a_user_keeps_many_kernels_and_nothing_is_left_of_them_afterwards)
{
    struct files files = { .count = 0 };
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(fetch_number(f, &f->ann, i).code, KILN_OK);
        receive(&f->ann, &files);
    }
    assert_int_equal(held_bytes(f), (uint64_t)MANY * SIZE);
    assert_true(users_stat(f, "hot_objects") + users_stat(f, "held_objects") == MANY);
    close_files(&files);
    engine_tick(f->engine.engine);
    assert_int_equal(users_stat(f, "held_objects"), 0);
    assert_int_equal(held_bytes(f), users_stat(f, "hot_bytes"));
}

TEST_F(users, a_raised_limit_applies_at_once)
{
    limit_held(f, SIZE);
    struct files ann = { .count = 0 };
    (void)fetch_number(f, &f->ann, 1);
    receive(&f->ann, &ann);
    f->engine.options.held_limit_bytes_uid = 2 * SIZE;
    engine_set_limits(f->engine.engine, &f->engine.options);
    assert_int_equal(fetch_number(f, &f->ann, 2).code, KILN_OK);
    receive(&f->ann, &ann);
    close_files(&ann);
}
