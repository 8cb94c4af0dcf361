/* SPDX-License-Identifier: MIT */
/* compile_program: kilnd compiles a program once for all users. */
#include "engine/digest/program_key.h"
#include "engine/digest/sha256.h"
#include "engine/service/internal.h"
#include "tests/unit/engine/service/users_fixture.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIBRARY "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define IDENTITY "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
#define HIP_LIBRARY "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
#define HIP_IDENTITY "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define TOOLCHAINS                                                                       \
    "{\"toolchains\":[{\"name\":\"nvrtc\",\"version\":\"1\",\"path\":\"/x\",\"family\":" \
    "\"nvidia\",\"identity\":\"" IDENTITY "\",\"library\":\"" LIBRARY "\"},"             \
    "{\"name\":\"hiprtc\",\"version\":\"1\",\"path\":\"/x\",\"family\":\"amdgpu\","      \
    "\"identity\":\"" HIP_IDENTITY "\",\"library\":\"" HIP_LIBRARY "\"}]}"
#define OPTIONS "--std=c++17 --gpu-architecture=sm_90 -DN=2"

static struct digest library(void)
{
    struct digest digest;
    assert_true(digest_from_hex(LIBRARY, &digest));
    return digest;
}

static struct message_compile_program program_of(const char *source)
{
    return (struct message_compile_program){ .library = library(),
                                             .inline_limit = LIMIT_INLINE_OBJECT,
                                             .options = bytes_of_text(OPTIONS),
                                             .name = bytes_of_text("k.cu"),
                                             .source = bytes_of_text(source) };
}

static void send_program(struct test_caller *c, const struct message_compile_program *m)
{
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, compile_program, 11, m);
    fake_executor_run_tasks(&c->fixture->executor);
}

static const struct compile_job *next_job(struct users *f)
{
    struct compile_task *task = fake_executor_next_compile(&f->engine.executor);
    assert_non_null(task);
    return &task->job;
}

static void learn_nvrtc(struct users *f)
{
    const struct message_compile_program m = program_of("int first;");
    send_program(&f->ann, &m);
    engine_fixture_describe_as(&f->engine, TOOLCHAINS);
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    finish_compile(f, "");
    finish_compile(f, "first");
    assert_int_equal(last_result(&f->ann).code, KILN_OK);
}

static void expect_content(const struct test_caller *c, const char *content)
{
    const struct message_result result = last_result(c);
    assert_int_equal(result.code, KILN_OK);
    assert_true(bytes_equal_text(result.content, content));
}

static struct digest key_of(const struct message_compile_program *m)
{
    const struct digest source = sha256_of(m->source);
    const struct program_inputs inputs = { .library = m->library,
                                           .options = m->options,
                                           .name = m->name,
                                           .source = m->source,
                                           .expressions = m->expressions };
    return program_key(&inputs, &source);
}

/* Returns a key for a result that a client compiled itself. It differs from the key of kilnd's
 * result. */
static struct digest own_key_of(const struct message_compile_program *m)
{
    struct digest key = key_of(m);
    key.bytes[0] ^= 1;
    return key;
}

static void send_look(struct test_caller *c, const struct message_compile_program *m,
                      uint32_t wait_ms)
{
    const struct message_compile_begin begin = { .key = own_key_of(m),
                                                 .flags = COMPILE_OR_PROGRAM,
                                                 .program = key_of(m),
                                                 .wait_ms = wait_ms,
                                                 .inline_limit = LIMIT_INLINE_OBJECT };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, compile_begin, 12, &begin);
    fake_executor_run_tasks(&c->fixture->executor);
}

static void give_back(struct test_caller *c, const struct message_compile_program *m)
{
    const struct message_compile_end nothing = { .key = own_key_of(m) };
    SEND_MESSAGE(c, compile_end, 13, &nothing);
    assert_int_equal(c->replies[c->reply_count - 1].type, MESSAGE_recorded);
}

/* Asks for the program without waiting, and returns the answer's code. If the answer allows the
 * client to compile the program, ends that compile without a result. */
static unsigned look(struct test_caller *c, const struct message_compile_program *m)
{
    send_look(c, m, 0);
    assert_int_equal(c->reply_count, 1);
    unsigned code = last_result(c).code;
    if (code == KILN_NOT_FOUND)
        give_back(c, m);
    return code;
}

TEST_F(undescribed, a_program_is_compiled_once_for_all_users)
{
    const struct message_compile_program m = program_of("int k;");
    learn_nvrtc(f);
    assert_int_equal(look(&f->ann, &m), KILN_NOT_FOUND);
    send_program(&f->ann, &m);
    send_program(&f->bob, &m);
    assert_true(bytes_equal_text(next_job(f)->options, OPTIONS));
    assert_true(next_job(f)->is_program);
    assert_int_equal(next_job(f)->origin, COMPILE_OF_CLIENT);
    finish_compile(f, "result");
    expect_content(&f->ann, "result");
    expect_content(&f->bob, "result");
    assert_null(fake_executor_next_compile(&f->engine.executor));

    assert_int_equal(look(&f->bob, &m), KILN_OK);
    expect_content(&f->bob, "result");
    send_program(&f->admin, &m);
    expect_content(&f->admin, "result");
    users_reopen(f);
    assert_int_equal(look(&f->publisher, &m), KILN_OK);
    expect_content(&f->publisher, "result");
}

TEST_F(undescribed, a_program_that_kilnd_compiles_is_counted_apart_from_kernels)
{
    const struct message_compile_program m = program_of("int k;");
    learn_nvrtc(f);
    const uint64_t before = users_stat(f, "client_programs");
    send_program(&f->ann, &m);
    finish_compile(f, "result");
    assert_int_equal(users_stat(f, "client_programs"), before + 1);
    assert_int_equal(look(&f->bob, &m), KILN_OK);
    assert_int_equal(users_stat(f, "client_hits"), 1);
    assert_int_equal(users_stat(f, "fetches"), 0);
    struct json *list = test_caller_ask(&f->bob, MESSAGE_kernel_list, "{\"kind\":\"rtc\"}");
    const struct json *kernel = json_first(json_get(list, "kernels"));
    assert_false(json_get_bool(kernel, "private", true));
    assert_string_equal(json_get_text(kernel, "program", ""), "k.cu");
    json_destroy(list);
}

/* Uploads |content| under |key|, as if |c| had compiled the program itself. */
static void claim(struct test_caller *c, const struct digest *key, const char *content)
{
    const struct message_compile_end end = { .key = *key };
    c->base.files[0] = memfd_create("result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(c->base.files[0], content, strlen(content)), (ssize_t)strlen(content));
    c->base.file_count = 1;
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, compile_end, 13, &end);
    c->base.file_count = 0;
    fake_executor_run_tasks(&c->fixture->executor);
    assert_int_equal(c->replies[0].type, MESSAGE_recorded);
}

/* A client's result is promoted if two users report the same. If it could answer for kilnd's
 * compiler, two users together could forge the results of that compiler for all users. */
TEST_F(undescribed, a_promoted_result_does_not_answer_for_kilnds_compiler)
{
    const struct message_compile_program m = program_of("int k;");
    learn_nvrtc(f);
    const struct digest key = key_of(&m);
    claim(&f->ann, &key, "forged");
    claim(&f->publisher, &key, "forged");
    json_destroy(test_caller_ask(&f->admin, MESSAGE_kernel_promote, NULL));
    assert_int_equal(look(&f->bob, &m), KILN_NOT_FOUND);
    assert_int_equal(look(&f->ann, &m), KILN_NOT_FOUND);
    send_program(&f->bob, &m);
    finish_compile(f, "result");
    json_destroy(test_caller_ask(&f->admin, MESSAGE_kernel_promote, NULL));
    users_reopen(f);
    assert_int_equal(look(&f->bob, &m), KILN_OK);
    expect_content(&f->bob, "result");
}

TEST_F(undescribed, one_request_finds_a_program_or_the_users_own_result)
{
    const struct message_compile_program m = program_of("int k;");
    const struct digest key = own_key_of(&m);
    learn_nvrtc(f);
    claim(&f->ann, &key, "own");
    assert_int_equal(look(&f->ann, &m), KILN_OK);
    expect_content(&f->ann, "own");
    assert_int_equal(last_result(&f->ann).index, COMPILE_ANSWER_OWN);
    assert_int_equal(look(&f->bob, &m), KILN_NOT_FOUND);
    send_program(&f->bob, &m);
    finish_compile(f, "result");
    for (unsigned is_reopened = 0; is_reopened < 2; is_reopened++) {
        assert_int_equal(look(&f->ann, &m), KILN_OK);
        expect_content(&f->ann, "result");
        assert_int_equal(last_result(&f->ann).index, COMPILE_ANSWER_PROGRAM);
        users_reopen(f);
    }
}

/* Bob's request does not allow waiting, so the answer allows him to compile the program himself. */
TEST_F(undescribed, a_request_does_not_wait_for_a_compile_of_kilnd)
{
    const struct message_compile_program m = program_of("int k;");
    learn_nvrtc(f);
    send_program(&f->ann, &m);
    (void)next_job(f);
    assert_int_equal(look(&f->bob, &m), KILN_NOT_FOUND);
    finish_compile(f, "result");
    assert_int_equal(look(&f->bob, &m), KILN_OK);
}

TEST_F(undescribed, all_waiting_requests_get_what_kilnd_has_compiled)
{
    const struct message_compile_program m = program_of("int k;");
    struct test_caller twins[2];
    learn_nvrtc(f);
    send_look(&f->ann, &m, 0);
    assert_int_equal(last_result(&f->ann).code, KILN_NOT_FOUND);
    for (unsigned i = 0; i < 2; i++) {
        test_caller_connect(&twins[i], &f->engine, f->ann.base.uid, ROLE_USE);
        send_look(&twins[i], &m, 1000);
        assert_int_equal(twins[i].reply_count, 0);
    }
    send_program(&f->ann, &m);
    finish_compile(f, "result");
    give_back(&f->ann, &m);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(twins[i].reply_count, 1);
        expect_content(&twins[i], "result");
        assert_int_equal(last_result(&twins[i]).index, COMPILE_ANSWER_PROGRAM);
        test_caller_leave(&twins[i]);
    }
}

TEST_F(undescribed, another_build_of_nvrtc_is_unavailable)
{
    struct message_compile_program m = program_of("int k;");
    learn_nvrtc(f);
    m.library.bytes[0] ^= 1;
    send_program(&f->ann, &m);
    assert_int_equal(last_result(&f->ann).code, KILN_UNAVAILABLE);
    memset(&m.library, 0, sizeof(m.library));
    send_program(&f->ann, &m);
    assert_int_equal(last_result(&f->ann).code, KILN_UNAVAILABLE);
    assert_null(fake_executor_next_compile(&f->engine.executor));
}

static struct message_compile_program hip_program_of(const char *options, const char *source)
{
    struct message_compile_program m = program_of(source);
    assert_true(digest_from_hex(HIP_LIBRARY, &m.library));
    m.options = bytes_of_text(options);
    return m;
}

TEST_F(undescribed, hiprtc_compiles_programs_too)
{
    const struct message_compile_program m =
        hip_program_of("--offload-arch=gfx90a -O3 -Wno-unused", "int k;");
    learn_nvrtc(f);
    send_program(&f->ann, &m);
    assert_int_equal(next_job(f)->kind, COMPILE_PROBE);
    finish_compile(f, "");
    assert_true(bytes_equal_text(next_job(f)->toolchain, "hiprtc"));
    assert_true(bytes_equal_text(next_job(f)->options, "--offload-arch=gfx90a -O3 -Wno-unused"));
    finish_compile(f, "result");
    expect_content(&f->ann, "result");
    assert_int_equal(look(&f->bob, &m), KILN_OK);
    expect_content(&f->bob, "result");
}

TEST_F(undescribed, a_program_must_be_for_a_target_of_its_library)
{
    struct message_compile_program m = hip_program_of(OPTIONS, "int k;");
    learn_nvrtc(f);
    send_program(&f->ann, &m);
    assert_int_equal(last_result(&f->ann).code, KILN_UNSUPPORTED);
    m = program_of("int k;");
    m.options = bytes_of_text("--gpu-architecture=gfx90a -Wno-unused");
    send_program(&f->ann, &m);
    assert_int_equal(last_result(&f->ann).code, KILN_UNSUPPORTED);
    m = hip_program_of("--offload-arch=gfx90a", "const char *f = __FILE__;");
    send_program(&f->ann, &m);
    assert_int_equal(last_result(&f->ann).code, KILN_DENIED);
    assert_null(fake_executor_next_compile(&f->engine.executor));
}

TEST_F(undescribed, a_program_that_may_read_files_is_refused)
{
    struct message_compile_program m = program_of("#include <vector>");
    learn_nvrtc(f);
    send_program(&f->ann, &m);
    assert_int_equal(last_result(&f->ann).code, KILN_DENIED);
    m = program_of("int k;");
    m.options = bytes_of_text("--gpu-architecture=sm_90 -I/etc");
    send_program(&f->ann, &m);
    assert_int_equal(last_result(&f->ann).code, KILN_DENIED);
    assert_null(fake_executor_next_compile(&f->engine.executor));
}

TEST_F(undescribed, every_input_of_a_program_is_part_of_its_key)
{
    struct message_compile_program m = program_of("int k;");
    learn_nvrtc(f);
    send_program(&f->ann, &m);
    finish_compile(f, "result");
    m.name = bytes_of_text("other.cu");
    assert_int_equal(look(&f->ann, &m), KILN_NOT_FOUND);
    m = program_of("int k;");
    m.options = bytes_of_text("--gpu-architecture=sm_90 --std=c++17 -DN=2");
    assert_int_equal(look(&f->ann, &m), KILN_NOT_FOUND);
    m = program_of("int l;");
    assert_int_equal(look(&f->ann, &m), KILN_NOT_FOUND);
    m = program_of("int k;");
    m.expressions = bytes_of("\x02\0\0\0f", 6);
    assert_int_equal(look(&f->ann, &m), KILN_NOT_FOUND);
}

TEST_F(undescribed, a_failed_program_is_not_compiled_again_at_once)
{
    const struct message_compile_program m = program_of("int");
    learn_nvrtc(f);
    for (unsigned i = 0; i < 2; i++) {
        send_program(&f->ann, &m);
        if (i == 0)
            fake_executor_fail(&f->engine.executor, COMPILE_REFUSED, "errors", "log");
        assert_int_equal(last_result(&f->ann).code, KILN_COMPILE_FAILED);
    }
    assert_null(fake_executor_next_compile(&f->engine.executor));
}
