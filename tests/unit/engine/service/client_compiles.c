/* SPDX-License-Identifier: MIT */
#include "tests/support/stepped_clock.h"
#include "tests/unit/engine/service/users_fixture.h"

#include "engine/service/requests/client_compiles.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGUN 21
#define ENDED 22
#define LARGE_RESULT (9u << 20)

static const struct digest key = { .bytes = { 1, 2, 3 } };

static void open_twin(struct users *f, struct test_caller *twin)
{
    test_caller_connect(twin, &f->engine, f->ann.base.uid, ROLE_USE);
}

static void send_begin(struct test_caller *c, uint32_t wait_ms)
{
    const struct message_compile_begin m = { .key = key,
                                             .wait_ms = wait_ms,
                                             .inline_limit = LIMIT_INLINE_OBJECT };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, compile_begin, BEGUN, &m);
    fake_executor_run_tasks(&c->fixture->executor);
}

static unsigned begin(struct test_caller *c, uint32_t wait_ms)
{
    send_begin(c, wait_ms);
    assert_int_equal(c->reply_count, 1);
    return last_result(c).code;
}

static int file_of(const char *content)
{
    int fd = memfd_create("result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    return fd;
}

static void send_end_as(struct test_caller *c, int file, const struct message_compile_end *m)
{
    c->base.files[0] = file;
    c->base.file_count = file >= 0;
    SEND_MESSAGE(c, compile_end, ENDED, m);
    c->base.file_count = 0;
    if (file >= 0 && c->base.files[0] >= 0)
        close(c->base.files[0]);
    fake_executor_run_tasks(&c->fixture->executor);
}

/* Ends the compile with the result |content|. With NULL, ends it without a result, so that
 * another client may compile. */
static void send_end(struct test_caller *c, const char *content)
{
    const struct message_compile_end m = { .key = key,
                                           .compile_ns = 5000000,
                                           .target = bytes_of_text("sm_90"),
                                           .toolchain = bytes_of_text("nvrtc 13.0"),
                                           .program = bytes_of_text("k.cu"),
                                           .options = bytes_of_text("-arch=sm_90") };
    test_caller_forget_replies(c);
    send_end_as(c, content ? file_of(content) : -1, &m);
}

static void expect_content(const struct test_caller *c, const char *content)
{
    struct message_result result = last_result(c);
    assert_int_equal(result.code, KILN_OK);
    assert_true(bytes_equal_text(result.content, content));
}

TEST_F(users, a_result_answers_its_user_and_nobody_else)
{
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_end(&f->ann, "result");
    assert_int_equal(f->ann.replies[0].type, MESSAGE_recorded);

    assert_int_equal(begin(&f->ann, 0), KILN_OK);
    expect_content(&f->ann, "result");
    assert_int_equal(begin(&f->bob, 0), KILN_NOT_FOUND);
    assert_int_equal(begin(&f->admin, 0), KILN_NOT_FOUND);
    assert_int_equal(users_stat(f, "client_compiles"), 1);
}

TEST_F(users, a_result_is_on_the_disk)
{
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_end(&f->ann, "result");
    users_reopen(f);
    assert_int_equal(begin(&f->ann, 0), KILN_OK);
    expect_content(&f->ann, "result");

    struct json *list = test_caller_ask(&f->ann, MESSAGE_kernel_list, NULL);
    const struct json *kernel = json_first(json_get(list, "kernels"));
    assert_string_equal(json_get_text(kernel, "toolchain", ""), "nvrtc 13.0");
    assert_string_equal(json_get_text(kernel, "program", ""), "k.cu");
    assert_true(json_get_bool(kernel, "private", false));
    json_destroy(list);
}

TEST_F(users, one_connection_compiles_and_the_others_wait)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    assert_int_equal(begin(&twin, 0), KILN_BUSY);
    send_begin(&twin, 1000);
    assert_int_equal(twin.reply_count, 0);

    send_end(&f->ann, "result");
    assert_int_equal(twin.reply_count, 1);
    expect_content(&twin, "result");
    assert_int_equal(users_stat(f, "client_compile_waits"), 1);
    test_caller_leave(&twin);
}

/* A look-up first reads the store, and then handles what it has read. Between these two steps,
 * ann's result is stored. */
TEST_F(users, a_result_that_arrives_during_a_look_up_is_not_compiled_again)
{
    struct test_caller twin;
    struct fake_executor *executor = &f->engine.executor;
    const struct message_compile_begin m = { .key = key, .inline_limit = LIMIT_INLINE_OBJECT };
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    test_caller_forget_replies(&twin);
    SEND_MESSAGE(&twin, compile_begin, BEGUN, &m);
    fake_executor_begin_task(executor);
    struct task *look_up = executor->begun;
    assert_non_null(look_up);
    executor->begun = NULL;
    send_end(&f->ann, "result");
    executor->begun = look_up;
    fake_executor_run_tasks(executor);
    assert_int_equal(twin.reply_count, 1);
    expect_content(&twin, "result");
    test_caller_leave(&twin);
}

TEST_F(users, a_connection_that_ends_passes_the_compile_on)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&twin, 0), KILN_NOT_FOUND);
    send_begin(&f->ann, 1000);
    test_caller_leave(&twin);
    assert_int_equal(last_result(&f->ann).code, KILN_NOT_FOUND);
    send_end(&f->ann, "result");
    assert_int_equal(begin(&f->ann, 0), KILN_OK);
}

TEST_F(users, a_failed_compile_is_given_back)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_begin(&twin, 1000);
    send_end(&f->ann, NULL);
    assert_int_equal(last_result(&twin).code, KILN_NOT_FOUND);
    send_end(&twin, NULL);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    test_caller_leave(&twin);
}

TEST_F(users, another_connection_cannot_give_a_compile_back)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_end(&twin, NULL);
    send_end(&f->bob, NULL);
    assert_int_equal(begin(&twin, 0), KILN_BUSY);
    test_caller_leave(&twin);
}

TEST_F(users, a_wait_ends_when_its_time_is_up)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_begin(&twin, 60000);
    engine_tick(f->engine.engine);
    assert_int_equal(twin.reply_count, 0);
    step_clock(60000000000u);
    engine_tick(f->engine.engine);
    engine_tick(f->engine.engine);
    step_clock(1);
    assert_int_equal(last_result(&twin).code, KILN_BUSY);
    test_caller_leave(&twin);
}

/* The answer would allow ann to compile, but she cancels her request before she reads it. She will
 * therefore not compile. */
TEST_F(users, a_compile_that_is_cancelled_after_its_answer_goes_to_the_next)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_begin(&twin, 1000);
    test_caller_cancel(&f->ann, BEGUN + 1);
    assert_int_equal(twin.reply_count, 0);
    test_caller_cancel(&f->ann, BEGUN);
    assert_int_equal(last_result(&twin).code, KILN_NOT_FOUND);
    send_end(&twin, "result");
    assert_int_equal(begin(&f->ann, 0), KILN_OK);
    test_caller_leave(&twin);
}

TEST_F(users, a_refused_result_ends_the_compile)
{
    const struct message_compile_end m = { .key = key, .part = COMPILE_PARTS };
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_end_as(&f->ann, file_of("result"), &m);
    assert_int_equal(begin(&twin, 0), KILN_NOT_FOUND);
    test_caller_leave(&twin);
}

/* The fields after the key may differ in another version of kiln. kilnd refuses the message, but
 * must understand that the compile has ended. */
TEST_F(users, a_client_of_another_build_gives_its_compiles_back)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    test_caller_forget_replies(&f->ann);
    test_caller_send(&f->ann, MESSAGE_compile_end, ENDED, bytes_of(key.bytes, DIGEST_SIZE - 1));
    assert_int_equal(begin(&twin, 0), KILN_BUSY);
    test_caller_forget_replies(&f->ann);
    test_caller_send(&f->ann, MESSAGE_compile_end, ENDED, bytes_of(key.bytes, DIGEST_SIZE));
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "too early");
    assert_int_equal(begin(&twin, 0), KILN_NOT_FOUND);
    test_caller_leave(&twin);
}

TEST_F(users, a_compile_that_is_held_for_a_minute_goes_to_the_next)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    step_clock(60000000000u);
    assert_int_equal(begin(&twin, 1000), KILN_NOT_FOUND);
    step_clock(1);
    send_end(&f->ann, NULL);
    assert_int_equal(begin(&f->ann, 0), KILN_BUSY);
    send_end(&f->ann, "result");
    assert_int_equal(begin(&twin, 0), KILN_OK);
    test_caller_leave(&twin);
}

TEST_F(users, a_stopping_kilnd_ends_the_waits)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_begin(&twin, 1000);
    engine_drain(f->engine.engine);
    assert_reply_refuses(&twin, 0, KILN_UNAVAILABLE, "stopping");
    test_caller_leave(&twin);
}

TEST_F(users, a_waiting_connection_may_leave)
{
    struct test_caller twin;
    open_twin(f, &twin);
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
    send_begin(&twin, 1000);
    test_caller_leave(&twin);
    send_end(&f->ann, "result");
    assert_int_equal(begin(&f->ann, 0), KILN_OK);
}

TEST_F(users, results_that_are_no_memory_files_or_have_bad_texts_are_refused)
{
    struct message_compile_end m = { .key = key, .program = bytes_of_text("\x1b[2J") };
    send_end_as(&f->ann, file_of("result"), &m);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "program");
    test_caller_forget_replies(&f->ann);
    m.program = bytes_of_text("k.cu");
    send_end_as(&f->ann, open("/dev/null", O_RDONLY | O_CLOEXEC), &m);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "memory file");
    test_caller_forget_replies(&f->ann);
    send_end_as(&f->ann, file_of(""), &m);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "memory file");
    assert_int_equal(begin(&f->ann, 0), KILN_NOT_FOUND);
}

/* kilnd must not call fstat(2) for a client's file: its filesystem may be the client's own, and
 * never answer. */
TEST_F(users, a_file_on_a_disk_is_refused_by_its_kind_alone)
{
    const struct message_compile_end m = { .key = key };
    send_end_as(&f->ann, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &m);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "not a memory file");
}

/* Reading a hole of a memory file must not allocate its pages. Otherwise, a client could make kilnd
 * allocate memory for any number of files. */
TEST_F(users, a_result_with_holes_takes_no_memory_of_the_clients_file)
{
    const struct message_compile_end m = { .key = key };
    int file = file_of("result"), kept = dup(file);
    struct stat seen;
    assert_int_equal(ftruncate(file, 8 << 20), 0);
    send_end_as(&f->ann, file, &m);
    assert_int_equal(f->ann.replies[0].type, MESSAGE_recorded);
    assert_int_equal(fstat(kept, &seen), 0);
    assert_true(seen.st_blocks < 1024);
    assert_int_equal(fcntl(kept, F_GET_SEALS), 0);
    close(kept);
}

TEST_F(users, a_file_that_grows_while_it_waits_is_stored_as_it_came)
{
    const struct message_compile_end m = { .key = key };
    f->ann.base.files[0] = file_of("result");
    int kept = dup(f->ann.base.files[0]);
    f->ann.base.file_count = 1;
    SEND_MESSAGE(&f->ann, compile_end, ENDED, &m);
    assert_int_equal(write(kept, " and more", 9), 9);
    fake_executor_run_tasks(&f->engine.executor);
    f->ann.base.file_count = 0;
    assert_int_equal(begin(&f->ann, 0), KILN_OK);
    expect_content(&f->ann, "result");
    close(kept);
}

TEST_F(users, a_file_that_shrinks_while_it_waits_is_refused)
{
    const struct message_compile_end m = { .key = key };
    f->ann.base.files[0] = file_of("result");
    int kept = dup(f->ann.base.files[0]);
    f->ann.base.file_count = 1;
    SEND_MESSAGE(&f->ann, compile_end, ENDED, &m);
    assert_int_equal(ftruncate(kept, 1), 0);
    fake_executor_run_tasks(&f->engine.executor);
    f->ann.base.file_count = 0;
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "changed");
    close(kept);
}

static void send_large_end(struct test_caller *c)
{
    const struct message_compile_end m = { .key = key };
    c->base.files[0] = file_of("result");
    c->base.file_count = 1;
    assert_int_equal(ftruncate(c->base.files[0], LARGE_RESULT), 0);
    SEND_MESSAGE(c, compile_end, ENDED, &m);
    c->base.file_count = 0;
}

TEST_F(users, a_large_result_is_copied_and_stored_in_steps)
{
    const unsigned *tasks = f->engine.executor.tasks_of;
    const unsigned reads = tasks[WORK_QUEUE_READ], writes = tasks[WORK_QUEUE_WRITE];

    send_large_end(&f->ann);
    fake_executor_run_tasks(&f->engine.executor);

    assert_int_equal(f->ann.replies[0].type, MESSAGE_recorded);
    assert_true(tasks[WORK_QUEUE_READ] - reads >= LARGE_RESULT / (4u << 20));
    assert_true(tasks[WORK_QUEUE_WRITE] - writes >= LARGE_RESULT / KERNEL_PIECE_MAX);
    assert_int_equal(users_stat(f, "store_objects"), 1);
}

TEST_F(users, a_client_that_leaves_ends_the_copy_and_the_storing_of_its_result)
{
    for (unsigned before = 1; before < 8; before++) {
        send_large_end(&f->bob);
        for (unsigned i = 0; i < before; i++)
            assert_true(fake_executor_run_task(&f->engine.executor));
        fake_executor_begin_task(&f->engine.executor);

        test_caller_leave(&f->bob);

        assert_true(fake_executor_run_tasks(&f->engine.executor) <= 2);
        assert_int_equal(users_stat(f, "store_objects"), 0);
        test_caller_connect(&f->bob, &f->engine, 1001, ROLE_USE);
    }
}

TEST_F(users, a_result_beyond_64_mib_is_refused)
{
    const struct message_compile_end m = { .key = key };
    int file = file_of("result");
    assert_int_equal(ftruncate(file, (64 << 20) + 1), 0);
    send_end_as(&f->ann, file, &m);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "at most 67108864");
}

TEST_F(users, waits_for_compiles_of_clients_are_limited_per_user)
{
    /* Several connections are needed, because a connection may have only 1024 unanswered
     * requests. */
    struct test_caller twins[3];
    unsigned refused = 0;
    for (unsigned i = 0; i < 3; i++)
        open_twin(f, &twins[i]);
    assert_int_equal(begin(&twins[0], 0), KILN_NOT_FOUND);
    for (unsigned i = 0; i < 1030; i++) {
        send_begin(&twins[1 + i % 2], 60000);
        refused += twins[1 + i % 2].reply_count;
    }
    assert_int_equal(refused, 6);
    assert_reply_refuses(&twins[2], 0, KILN_BUSY, "waits for compiles");
    assert_int_equal(begin(&f->bob, 0), KILN_NOT_FOUND);
    for (unsigned i = 0; i < 3; i++)
        test_caller_leave(&twins[i]);
}

TEST_F(users, unfinished_compiles_are_charged_to_their_user)
{
    struct message_compile_begin m = { .inline_limit = 0 };
    f->engine.options.queue_bytes_uid = 1u << 20;
    users_reopen(f);
    unsigned granted = 0, refused = 0;
    for (unsigned i = 0; i < 400; i++) {
        memcpy(m.key.bytes, &i, sizeof(i));
        test_caller_forget_replies(&f->ann);
        SEND_MESSAGE(&f->ann, compile_begin, BEGUN, &m);
        fake_executor_run_tasks(&f->engine.executor);
        granted += last_result(&f->ann).code == KILN_NOT_FOUND;
        refused += last_result(&f->ann).code == KILN_BUSY;
    }
    assert_true(granted > 100 && granted < 256);
    assert_int_equal(granted + refused, 400);
    assert_int_equal(begin(&f->bob, 0), KILN_NOT_FOUND);
}

static void store_part(struct test_caller *c, uint8_t part, uint8_t first)
{
    const struct message_compile_end m = { .key = { .bytes = { first, part } },
                                           .part = part,
                                           .compile_ns = 5000000,
                                           .target = bytes_of_text("sm_90"),
                                           .toolchain = bytes_of_text("nvrtc 13.0"),
                                           .program = bytes_of_text("k.cu") };
    test_caller_forget_replies(c);
    send_end_as(c, file_of("result"), &m);
    assert_int_equal(c->replies[0].type, MESSAGE_recorded);
}

static size_t count_listed(struct test_caller *c, const char *question)
{
    struct json *list = test_caller_ask(c, MESSAGE_kernel_list, question);
    size_t count = json_count(json_get(list, "kernels"));
    json_destroy(list);
    return count;
}

TEST_F(users, the_parts_of_a_compile_are_listed_by_their_kind)
{
    compile_program(&f->ann, "conv.cl");
    for (unsigned part = 0; part < COMPILE_PARTS; part++)
        store_part(&f->ann, (uint8_t)part, 1);
    users_reopen(f);
    assert_int_equal(count_listed(&f->ann, NULL), 4);
    assert_int_equal(count_listed(&f->ann, "{\"kind\":\"kernel\"}"), 1);
    assert_int_equal(count_listed(&f->ann, "{\"kind\":\"rtc\"}"), 1);
    assert_int_equal(count_listed(&f->ann, "{\"kind\":\"rtc-files\"}"), 1);
    assert_int_equal(count_listed(&f->ann, "{\"kind\":\"rtc-mark\"}"), 1);
    test_caller_refused(&f->ann, MESSAGE_kernel_list, "{\"kind\":\"cubin\"}", KILN_INVALID,
                        "rtc-files");
}

TEST_F(users, only_the_results_of_clients_count_as_compiles)
{
    for (unsigned part = 0; part < COMPILE_PARTS; part++)
        store_part(&f->ann, (uint8_t)part, 1);
    assert_int_equal(users_stat(f, "client_compiles"), 1);
}

static void take_part(struct test_caller *c, uint8_t part, uint8_t first)
{
    const struct message_compile_begin m = { .key = { .bytes = { first, part } },
                                             .inline_limit = LIMIT_INLINE_OBJECT };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, compile_begin, BEGUN, &m);
    fake_executor_run_tasks(&c->fixture->executor);
    expect_content(c, "result");
}

/* A client takes a compile's list of files, then its result. Together they count as one hit,
 * whether they are hot or on disk. */
TEST_F(users, an_answered_compile_counts_once_and_apart_from_kernels)
{
    for (unsigned part = 0; part < COMPILE_PARTS; part++)
        store_part(&f->ann, (uint8_t)part, 1);
    const uint64_t fetches = users_stat(f, "fetches");
    for (uint64_t hits = 1; hits <= 2; hits++) {
        take_part(&f->ann, COMPILE_PART_FILES, 1);
        take_part(&f->ann, COMPILE_PART_RESULT, 1);
        assert_int_equal(users_stat(f, "client_hits"), 1);
        assert_int_equal(users_stat(f, "client_saved_ms"), 5);
        assert_int_equal(users_stat(f, "fetches"), fetches);
        assert_int_equal(users_stat(f, "hits.hot") + users_stat(f, "hits.disk"), 0);
        assert_int_equal(users_stat(f, "misses"), 0);
        assert_int_equal(
            test_caller_metric(&f->ann, "kiln_client_compiles_total{result=\"answered\"}"), 1);
        users_reopen(f);
    }
}

static const struct json *find_row(const struct json *answer, const char *program)
{
    for (const struct json *j = json_first(json_get(answer, "rows")); j; j = json_next(j))
        if (strcmp(json_get_text(j, "program", ""), program) == 0)
            return j;
    fail_msg("there is no row for %s", program);
    return NULL;
}

TEST_F(users, the_accounting_has_one_row_for_compiles_of_clients)
{
    for (unsigned part = 0; part < COMPILE_PARTS; part++)
        store_part(&f->ann, (uint8_t)part, 1);
    take_part(&f->ann, COMPILE_PART_RESULT, 1);
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_accounting, "{\"by\":\"program\"}");
    const struct json *row = find_row(answer, "(NVRTC, hiprtc or comgr)");
    assert_int_equal(json_get_u64(row, "hits", 0), 1);
    assert_int_equal(json_get_u64(row, "kernels", 0), 3);
    assert_true(json_get_number(row, "saved_s", 0) > 0.0049);
    json_destroy(answer);
}

TEST_F(users, an_unknown_part_is_refused)
{
    const struct message_compile_end m = { .key = key, .part = COMPILE_PARTS };
    send_end_as(&f->ann, file_of("result"), &m);
    assert_reply_refuses(&f->ann, 0, KILN_INVALID, "part");
}

TEST_F(users, why_miss_compares_compiles_of_clients_with_each_other_only)
{
    char hex[DIGEST_HEX_SIZE], question[128];
    compile_program(&f->ann, "k.cu");
    store_part(&f->ann, COMPILE_PART_RESULT, 1);
    const struct digest stored = { .bytes = { 1, COMPILE_PART_RESULT } };
    const struct digest in_store = kernel_client_key(f->ann.base.uid, &stored);
    users_reopen(f);
    digest_to_hex(&in_store, hex);
    snprintf(question, sizeof(question), "{\"key\":\"%s\"}", hex);
    struct json *answer = test_caller_ask(&f->ann, MESSAGE_why_miss, question);
    assert_true(json_get_bool(answer, "found", false));
    assert_non_null(strstr(json_get_text(answer, "message", ""), "the user who sent it"));
    assert_int_equal(json_count(json_get(answer, "nearest")), 0);
    json_destroy(answer);
}
