/* SPDX-License-Identifier: MIT */
#include "tests/support/stepped_clock.h"
#include "tests/support/subordinate_ranges.h"
#include "tests/unit/engine/service/users_fixture.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct part {
    uint8_t kind;    /* enum compile_part */
    uint8_t compile; /* first byte of the compile's key */
    const char *content;
    const char *program;
};

static struct digest key_of(const struct part *p)
{
    return (struct digest){ .bytes = { p->compile, p->kind } };
}

static void store_part(struct test_caller *c, const struct part *p)
{
    const struct message_compile_end m = { .key = key_of(p),
                                           .part = p->kind,
                                           .compile_ns = 5000000,
                                           .target = bytes_of_text("sm_90"),
                                           .toolchain = bytes_of_text("nvrtc 13.0"),
                                           .program = bytes_of_text(p->program) };
    int fd = memfd_create("result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(fd, p->content, strlen(p->content)), (ssize_t)strlen(p->content));
    test_caller_forget_replies(c);
    c->base.files[0] = fd;
    c->base.file_count = 1;
    SEND_MESSAGE(c, compile_end, 1, &m);
    c->base.file_count = 0;
    fake_executor_run_tasks(&c->fixture->executor);
    assert_int_equal(c->replies[0].type, MESSAGE_recorded);
}

/* Stores the three parts of a client's compile: its result, its list of files, and the mark that
 * it has ended. */
static void store_compile(struct test_caller *c, uint8_t compile, const char *content)
{
    for (unsigned kind = 0; kind < COMPILE_PARTS; kind++)
        store_part(c, &(struct part){ (uint8_t)kind, compile, content, "k.cu" });
}

/* Requests a part of a compile, and returns the answer's code. If the answer has the part, it must
 * be |content|. */
static unsigned take_part(struct test_caller *c, uint8_t kind, uint8_t compile, const char *content)
{
    const struct part part = { .kind = kind, .compile = compile };
    const struct message_compile_begin m = { .key = key_of(&part),
                                             .inline_limit = LIMIT_INLINE_OBJECT };
    const struct message_compile_end give_back = { .key = m.key };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, compile_begin, 2, &m);
    fake_executor_run_tasks(&c->fixture->executor);
    const struct message_result result = last_result(c);
    if (result.code == KILN_OK)
        assert_true(bytes_equal_text(result.content, content));
    else
        SEND_MESSAGE(c, compile_end, 3, &give_back);
    return result.code;
}

struct expected {
    uint64_t compiles, promoted, held, replaced;
};

static void promote(struct users *f, const char *question, struct expected expected)
{
    struct json *answer = test_caller_ask(&f->admin, MESSAGE_kernel_promote, question);
    assert_int_equal(json_get_u64(answer, "compiles", 99), expected.compiles);
    assert_int_equal(json_get_u64(answer, "promoted", 0), expected.promoted);
    assert_int_equal(json_get_u64(answer, "held", 0), expected.held);
    assert_int_equal(json_get_u64(answer, "replaced", 0), expected.replaced);
    json_destroy(answer);
}

#define OF_ANN "{\"uid\":1000}"

TEST_F(users, a_promoted_compile_answers_all_users)
{
    store_compile(&f->ann, 1, "result");
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, NULL), KILN_NOT_FOUND);
    promote(f, OF_ANN, (struct expected){ .compiles = 1, .promoted = 1 });
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
        assert_int_equal(take_part(&f->bob, COMPILE_PART_FILES, 1, "result"), KILN_OK);
        assert_int_equal(take_part(&f->ann, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
        users_reopen(f);
    }
    promote(f, OF_ANN, (struct expected){ .compiles = 1 });
}

/* A promotion covers results and lists of files. A mark only ends its own user's compile, so it
 * stays private to that user. */
TEST_F(users, marks_are_not_promoted)
{
    store_compile(&f->ann, 1, "result");
    promote(f, OF_ANN, (struct expected){ .compiles = 1, .promoted = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_MARK, 1, NULL), KILN_NOT_FOUND);
}

TEST_F(users, a_compile_of_one_user_is_held_without_the_uid)
{
    store_compile(&f->ann, 1, "result");
    promote(f, NULL, (struct expected){ .compiles = 1, .held = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, NULL), KILN_NOT_FOUND);
}

TEST_F(users, a_result_that_two_users_got_is_promoted)
{
    store_compile(&f->ann, 1, "result");
    store_compile(&f->publisher, 1, "result");
    promote(f, NULL, (struct expected){ .compiles = 2, .promoted = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
}

TEST_F(users, two_uids_of_one_range_confirm_none)
{
    store_compile(&f->ann, 1, "result");
    store_compile(&f->publisher, 1, "result");
    set_subordinate_ranges("ann:1000:10\n");
    promote(f, NULL, (struct expected){ .compiles = 2, .held = 2 });
    set_subordinate_ranges("ann:1000:1\n");
    promote(f, NULL, (struct expected){ .compiles = 2, .promoted = 1 });
    set_subordinate_ranges("");
}

TEST_F(users, users_who_got_different_results_confirm_none)
{
    store_compile(&f->ann, 1, "result");
    store_compile(&f->publisher, 1, "another");
    promote(f, NULL, (struct expected){ .compiles = 2, .held = 2 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, NULL), KILN_NOT_FOUND);
}

TEST_F(users, a_result_of_another_compile_confirms_none)
{
    store_compile(&f->ann, 1, "result");
    store_compile(&f->publisher, 2, "result");
    promote(f, NULL, (struct expected){ .compiles = 2, .held = 2 });
}

TEST_F(users, the_administrators_own_compiles_are_promoted)
{
    store_compile(&f->admin, 1, "result");
    promote(f, NULL, (struct expected){ .compiles = 1, .promoted = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
}

TEST_F(users, only_the_selected_programs_are_promoted)
{
    store_part(&f->ann, &(struct part){ COMPILE_PART_RESULT, 1, "one", "a.cu" });
    store_part(&f->ann, &(struct part){ COMPILE_PART_RESULT, 2, "two", "b.cu" });
    promote(f, "{\"uid\":1000,\"program\":\"a.cu\"}",
            (struct expected){ .compiles = 1, .promoted = 1 });
    promote(f, "{\"uid\":1000,\"target\":\"sm_80\"}", (struct expected){ 0 });
    promote(f, "{\"uid\":1001}", (struct expected){ 0 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "one"), KILN_OK);
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 2, NULL), KILN_NOT_FOUND);
}

TEST_F(users, a_dry_run_promotes_nothing)
{
    store_compile(&f->ann, 1, "result");
    promote(f, "{\"uid\":1000,\"dry_run\":true}",
            (struct expected){ .compiles = 1, .promoted = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, NULL), KILN_NOT_FOUND);
}

TEST_F(users, a_promotion_can_be_taken_back)
{
    store_compile(&f->ann, 1, "result");
    promote(f, OF_ANN, (struct expected){ .compiles = 1, .promoted = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
    promote(f, "{\"undo\":true,\"dry_run\":true}", (struct expected){ .compiles = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
    promote(f, "{\"undo\":true}", (struct expected){ .compiles = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, NULL), KILN_NOT_FOUND);
    assert_int_equal(take_part(&f->bob, COMPILE_PART_FILES, 1, NULL), KILN_NOT_FOUND);
    assert_int_equal(take_part(&f->ann, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
}

/* Compiled kernels, like promoted ones, are available to all users. An undo of promotions must not
 * remove them. */
TEST_F(users, taking_promotions_back_keeps_compiled_kernels)
{
    compile_program(&f->ann, "conv.cl");
    promote(f, "{\"undo\":true}", (struct expected){ 0 });
    assert_int_equal(users_stat(f, "store_objects"), 1);
}

TEST_F(users, a_newer_result_replaces_a_promoted_one)
{
    store_compile(&f->ann, 1, "result");
    promote(f, OF_ANN, (struct expected){ .compiles = 1, .promoted = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
    store_compile(&f->ann, 1, "newer");
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "result"), KILN_OK);
    promote(f, OF_ANN, (struct expected){ .compiles = 1, .promoted = 1, .replaced = 1 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 1, "newer"), KILN_OK);
}

TEST_F(users, more_compiles_than_a_page_are_promoted)
{
    for (uint8_t i = 1; i <= 150; i++)
        store_part(&f->ann, &(struct part){ COMPILE_PART_RESULT, i, "result", "k.cu" });
    promote(f, OF_ANN, (struct expected){ .compiles = 150, .promoted = 150 });
    assert_int_equal(take_part(&f->bob, COMPILE_PART_RESULT, 149, "result"), KILN_OK);
    promote(f, "{\"undo\":true}", (struct expected){ .compiles = 150 });
}

/* The fake clock makes each step reach its time limit after one compile. */
TEST_F(users, compiles_are_promoted_in_steps_that_let_others_in)
{
    for (uint8_t i = 1; i <= 3; i++)
        store_part(&f->ann, &(struct part){ COMPILE_PART_RESULT, i, "result", "k.cu" });
    const unsigned *writes = &f->engine.executor.tasks_of[WORK_QUEUE_WRITE], before = *writes;
    test_caller_forget_replies(&f->admin);
    test_caller_forget_replies(&f->bob);

    step_clock(21000000);
    test_caller_send(&f->admin, MESSAGE_kernel_promote, 3, bytes_of_text(OF_ANN));
    test_caller_send(&f->bob, MESSAGE_kernel_list, 3, (struct bytes){ 0 });
    while (f->bob.reply_count == 0)
        assert_true(fake_executor_run_task(&f->engine.executor));
    assert_int_equal(f->admin.reply_count, 0);
    fake_executor_run_tasks(&f->engine.executor);
    step_clock(1);

    assert_true(*writes >= before + 3);
    KILN_AUTO(json) struct json *answer = reply_json(&f->admin, 0);
    assert_int_equal(json_get_u64(answer, "promoted", 0), 3);
}

TEST_F(users, the_answer_says_what_each_user_has)
{
    store_compile(&f->ann, 1, "result");
    store_compile(&f->bob, 2, "result");
    struct json *answer = test_caller_ask(&f->admin, MESSAGE_kernel_promote, OF_ANN);
    const struct json *users = json_get(answer, "users");
    assert_int_equal(json_count(users), 1);
    assert_int_equal(json_get_u64(json_first(users), "uid", 0), 1000);
    assert_int_equal(json_get_u64(json_first(users), "promoted", 0), 1);
    json_destroy(answer);
}

TEST_F(users, only_administrators_promote_compiles)
{
    test_caller_refused(&f->ann, MESSAGE_kernel_promote, OF_ANN, KILN_DENIED,
                        "kilnctl kernel promote");
    test_caller_refused(&f->publisher, MESSAGE_kernel_promote, OF_ANN, KILN_DENIED,
                        "kilnctl kernel promote");
}
