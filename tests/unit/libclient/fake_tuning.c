/* SPDX-License-Identifier: MIT */
#include "tests/unit/libclient/fake_tuning.h"

#include <assert.h>
#include <string.h>

struct kiln_measurement fake_measurement(const char *solver)
{
    return (struct kiln_measurement){ .size = sizeof(struct kiln_measurement),
                                      .solver = solver,
                                      .algorithm = FAKE_ALGORITHM,
                                      .params = "1,2",
                                      .workspace = 4096,
                                      .samples = 7,
                                      .median_ms = 0.5,
                                      .spread_ms = 0.25 };
}

struct kiln_recording fake_recording(const struct kiln_measurement *measurements, uint32_t count)
{
    return (struct kiln_recording){ .size = sizeof(struct kiln_recording),
                                    .database_id = "gfx90a68",
                                    .tier = KILN_TUNING_USER,
                                    .device_uuid = "GPU-1",
                                    .device = "MI210",
                                    .driver = "6.2.4",
                                    .toolchain = "clang 17",
                                    .clock_mhz = 1700,
                                    .measurements = measurements,
                                    .measurement_count = count };
}

struct message_tuning_get fake_tuning_question(const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    struct message_tuning_get m = message_tuning_get_read(&r);
    assert(rq->header.type == MESSAGE_tuning_get && !r.failed && r.at == r.end &&
           m.problems.size == m.count * (size_t)PROBLEM_WIRE_SIZE);
    return m;
}

struct problem fake_tuning_problem(const struct message_tuning_get *question, uint32_t index)
{
    struct reader r = reader_of(
        bytes_of(question->problems.data + index * (size_t)PROBLEM_WIRE_SIZE, PROBLEM_WIRE_SIZE));
    return problem_read(&r);
}

struct message_tuning_answer fake_tuning_answer(uint32_t index, const char *value)
{
    return (struct message_tuning_answer){ .index = index,
                                           .tier = KILN_TUNING_HOST,
                                           .batch_ratio = fake_real(1),
                                           .spatial_ratio = fake_real(1),
                                           .key = bytes_of_text("key"),
                                           .value = bytes_of_text(value) };
}

void fake_tuned_add(struct fake_tuned *t, const struct message_tuning_answer *answer)
{
    if (!t->answers.limit)
        buffer_init(&t->answers, LIMIT_FRAME_BODY);
    message_tuning_answer_write(&t->answers, answer);
    t->count++;
}

void fake_tuned_reply(struct fake_tuned *t, const struct fake_request *rq, uint16_t flags)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, LIMIT_FRAME_BODY);
    struct message_tuned m = { .count = t->count, .answers = buffer_view(&t->answers) };
    message_tuned_write(&body, &m);
    assert(!body.failed);
    fake_reply(rq, MESSAGE_tuned, flags, buffer_view(&body));
    buffer_done(&t->answers);
    buffer_init(&t->answers, LIMIT_FRAME_BODY);
    t->count = 0;
}

uint64_t fake_real(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof(bits));
    return bits;
}
