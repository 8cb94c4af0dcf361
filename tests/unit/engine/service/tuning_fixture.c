/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/service/tuning_fixture.h"

#include "common/base/fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct problem problem_of_batch(uint32_t n)
{
    return (struct problem){ .direction = DIRECTION_FORWARD,
                             .spatial_dims = 2,
                             .type = TYPE_FLOAT32,
                             .n = n,
                             .c = 64,
                             .k = 64,
                             .groups = 1,
                             .in = { 1, 56, 56 },
                             .filter = { 1, 1, 1 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
}

void tuning_write(struct users *f, const char *text)
{
    must(fs_replace_file(f->file, bytes_of_text(text), 0600, &f->engine.err), f->engine.err);
}

void tuning_send_file(struct users *f, struct test_caller *c, enum message_type type,
                      const char *question, const char *name)
{
    const int file = open(f->file, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    test_caller_forget_replies(c);
    test_caller_send_files(c, type, question, &file, 1);
    if (fake_executor_next_transfer(&f->engine.executor))
        fake_executor_transfer(&f->engine.executor, f->file, name, "");
}

struct json *tuning_import(struct users *f, struct test_caller *c, const char *question,
                           const char *name, const char *text)
{
    tuning_write(f, text);
    tuning_send_file(f, c, MESSAGE_tuning_import, question, name);
    fake_executor_run_tasks(&f->engine.executor);
    return reply_json(c, c->reply_count - 1);
}

void tuning_import_system(struct users *f)
{
    KILN_AUTO(json)
    struct json *answer = tuning_import(f, &f->admin, "{\"name\":\"" FIND_FILE "\"}", FIND_FILE,
                                        KEY "=" WINOGRAD ";" GEMM "\n");
    assert_int_equal(json_get_u64(answer, "records", 0), 1);
}

void tuning_ask_many(struct test_caller *c, uint8_t kind, uint8_t flags, uint32_t count)
{
    BUFFER_AUTO struct buffer problems;
    buffer_init(&problems, LIMIT_FRAME_BODY);
    for (uint32_t i = 0; i < count; i++) {
        struct problem p = problem_of_batch(i + 1);
        problem_write(&problems, &p);
    }
    const struct message_tuning_get m = { .kind = kind,
                                          .flags = flags,
                                          .database_id = bytes_of_text(ID),
                                          .driver = bytes_of_text("driver 2"),
                                          .count = count,
                                          .problems = buffer_view(&problems) };
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, tuning_get, 4, &m);
}

struct message_tuning_answer tuning_ask(struct users *f, struct test_caller *c, uint8_t kind,
                                        uint8_t flags, uint32_t n)
{
    tuning_ask_many(c, kind, flags, n);
    fake_executor_run_tasks(&f->engine.executor);
    struct message_tuning_answer answer = { .code = 0xffff };
    for (size_t i = 0; i < c->reply_count; i++) {
        assert_int_equal(c->replies[i].type, MESSAGE_tuned);
        struct reader r = reader_of(c->replies[i].body);
        struct message_tuned m = message_tuned_read(&r);
        struct reader answers = reader_of(m.answers);
        for (uint32_t k = 0; k < m.count; k++)
            answer = message_tuning_answer_read(&answers);
        assert_false(answers.failed);
    }
    assert_int_equal(answer.index, n - 1);
    return answer;
}

bool tuning_finds(struct users *f, struct test_caller *c, const char *value)
{
    struct message_tuning_answer answer = tuning_ask(f, c, 0, 0, 1);
    return answer.code == KILN_OK && bytes_equal_text(answer.value, value);
}

uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static struct put put_of(uint8_t kind, const char *solver, double median_ms)
{
    return (struct put){ .m = { .kind = kind,
                                .tier = 3,
                                .problem = problem_of_batch(1),
                                .database_id = bytes_of_text(ID),
                                .device = bytes_of_text("gfx90a"),
                                .driver = bytes_of_text("driver 1"),
                                .toolchain = bytes_of_text("toolchain 1"),
                                .library = bytes_of_text("test"),
                                .clock_mhz = 1700,
                                .count = 1 },
                         .entry = { .solver = bytes_of_text(solver),
                                    .samples = 5,
                                    .median_ms = double_bits(median_ms),
                                    .spread_ms = double_bits(0.001) },
                         .repeated = 1 };
}

struct put find_put(const char *solver, double median_ms)
{
    struct put put = put_of(0, solver, median_ms);
    put.entry.algorithm = bytes_of_text("miopenConvolutionFwdAlgoDirect");
    put.entry.workspace = 128;
    return put;
}

struct put perf_put(const char *solver, const char *params, double median_ms)
{
    struct put put = put_of(1, solver, median_ms);
    put.entry.params = bytes_of_text(params);
    return put;
}

void tuning_send_put(struct users *f, struct test_caller *c, const struct put *put, bool runs)
{
    struct message_tuning_put m = put->m;
    BUFFER_AUTO struct buffer entries;
    buffer_init(&entries, LIMIT_FRAME_BODY);
    for (uint32_t i = 0; i < put->repeated; i++)
        message_tuning_entry_write(&entries, &put->entry);
    m.entries = buffer_view(&entries);
    test_caller_forget_replies(c);
    SEND_MESSAGE(c, tuning_put, 6, &m);
    if (runs)
        fake_executor_run_tasks(&f->engine.executor);
}

void tuning_put(struct users *f, struct test_caller *c, const struct put *put)
{
    tuning_send_put(f, c, put, /* runs= */ true);
    assert_int_equal(c->reply_count, 1);
    assert_int_equal(c->replies[0].type, MESSAGE_recorded);
    struct reader r = reader_of(c->replies[0].body);
    assert_int_equal(message_recorded_read(&r).count, put->m.count);
}

uint64_t answer_number(const struct json *answer, const char *name)
{
    return json_get_u64(answer, name, UINT64_MAX);
}

struct json *tuning_reported(const struct test_caller *c, const char *name)
{
    for (size_t i = 0; i + 1 < c->reply_count; i++) {
        struct json *frame = reply_json(c, i);
        assert_int_equal(c->replies[i].flags, FRAME_MORE);
        if (json_get(frame, name))
            return frame;
        json_destroy(frame);
    }
    fail_msg("no progress frame has '%s'", name);
    return NULL;
}
