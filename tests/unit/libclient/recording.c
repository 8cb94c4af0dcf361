/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ENTRIES TUNING_ENTRIES_MAX

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_measurement measurements[ENTRIES + 1];
    struct kiln_recording recording;

    struct buffer body; /* body of the last request; owned */
    struct message_tuning_put asked;
    int more; /* added to the number of entries that the daemon confirms */
    unsigned breaks;
    uint8_t tokens[4][TUNING_TOKEN_SIZE]; /* tokens of the first requests */
    unsigned token_count;
};

static void record(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    f->body.size = 0;
    buffer_put(&f->body, rq->body.data, rq->body.size);
    struct reader r = reader_of(buffer_view(&f->body));
    f->asked = message_tuning_put_read(&r);
    assert_true(rq->header.type == MESSAGE_tuning_put && !r.failed && r.at == r.end);
    assert_int_equal(f->asked.token.size, TUNING_TOKEN_SIZE);
    if (f->token_count < 4)
        memcpy(f->tokens[f->token_count++], f->asked.token.data, TUNING_TOKEN_SIZE);
    if (f->breaks) {
        f->breaks--;
        fake_hang_up(rq);
        return;
    }
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 100);
    struct message_recorded m = { .count = f->asked.count + (uint32_t)f->more };
    message_recorded_write(&body, &m);
    fake_reply(rq, MESSAGE_recorded, 0, buffer_view(&body));
}

SET_UP(set_up)
{
    f->problem = public_test_problem(3);
    f->recording = fake_recording(f->measurements, 2);
    for (size_t i = 0; i <= ENTRIES; i++)
        f->measurements[i] = fake_measurement(i ? "SolverB" : "SolverA");
    test_buffer(&f->body, LIMIT_FRAME_BODY);
    fake_daemon_serve(&f->daemon, record, f, &f->client);
}

FIXTURE(recording, set_up, NULL);

static int find_put(struct fixture *f)
{
    return kiln_find_put(f->client, &f->problem, &f->recording, &f->err);
}

static int perf_put(struct fixture *f)
{
    return kiln_perf_put(f->client, &f->problem, &f->recording, &f->err);
}

static struct message_tuning_entry asked_entry(const struct fixture *f, unsigned index)
{
    struct reader r = reader_of(f->asked.entries);
    struct message_tuning_entry e;
    for (unsigned i = 0; i <= index; i++)
        e = message_tuning_entry_read(&r);
    assert_false(r.failed);
    return e;
}

static void assert_text(struct bytes text, const char *expected)
{
    if (!bytes_equal_text(text, expected))
        fail_msg("'%.*s' is not '%s'", (int)text.size, (const char *)text.data, expected);
}

TEST_F(recording, find_measurements_are_sent_with_their_origin)
{
    must(find_put(f), f->err);

    const struct message_tuning_put *m = &f->asked;
    assert_int_equal(m->kind, TUNING_FIND);
    assert_int_equal(m->tier, KILN_TUNING_USER);
    assert_int_equal(m->problem.n, 3);
    assert_text(m->database_id, "gfx90a68");
    assert_text(m->backend, "HIP");
    assert_text(m->device_uuid, "GPU-1");
    assert_text(m->device, "MI210");
    assert_text(m->driver, "6.2.4");
    assert_text(m->toolchain, "clang 17");
    assert_text(m->library, "libkiln " KILN_VERSION);
    assert_int_equal(m->clock_mhz, 1700);
    assert_int_equal(m->count, 2);
    struct message_tuning_entry e = asked_entry(f, 1);
    assert_text(e.solver, "SolverB");
    assert_text(e.algorithm, FAKE_ALGORITHM);
    assert_text(e.params, "");
    assert_int_equal(e.workspace, 4096);
    assert_int_equal(e.samples, 7);
    assert_true(e.median_ms == fake_real(0.5) && e.spread_ms == fake_real(0.25));
}

TEST_F(recording, perf_measurements_have_parameters_instead)
{
    f->recording.tier = KILN_TUNING_HOST;
    f->recording.library = "MIOpen 3.2";

    must(perf_put(f), f->err);

    assert_int_equal(f->asked.kind, TUNING_PERF);
    assert_int_equal(f->asked.tier, KILN_TUNING_HOST);
    assert_text(f->asked.backend, "");
    assert_text(f->asked.library, "MIOpen 3.2");
    struct message_tuning_entry e = asked_entry(f, 0);
    assert_text(e.solver, "SolverA");
    assert_text(e.algorithm, "");
    assert_text(e.params, "1,2");
    assert_int_equal(e.workspace, 0);
    f->measurements[0].params = NULL; /* MIOpen's files have entries without params */
    must(perf_put(f), f->err);
    assert_int_equal(asked_entry(f, 0).params.size, 0);
}

TEST_F(recording, unknown_fields_of_a_recording_are_sent_empty)
{
    f->recording.device_uuid = f->recording.device = NULL;
    f->recording.driver = f->recording.toolchain = NULL;
    f->recording.backend = "OpenCL";

    must(find_put(f), f->err);

    assert_int_equal(f->asked.device_uuid.size + f->asked.device.size + f->asked.driver.size +
                         f->asked.toolchain.size,
                     0);
    assert_text(f->asked.backend, "OpenCL");
}

TEST_F(recording, a_record_may_have_its_most_entries_at_their_longest)
{
    static char word[TUNING_WORD_MAX + 1], algorithm[TUNING_WORD_MAX + 1];
    memset(word, 'x', TUNING_WORD_MAX);
    memset(algorithm, 'x', TUNING_WORD_MAX);
    memcpy(algorithm, FAKE_ALGORITHM, sizeof(FAKE_ALGORITHM) - 1);
    for (size_t i = 0; i < ENTRIES; i++) {
        f->measurements[i].solver = word;
        f->measurements[i].algorithm = algorithm;
    }
    f->recording.measurement_count = ENTRIES;

    must(find_put(f), f->err);

    assert_int_equal(f->asked.count, ENTRIES);
    assert_int_equal(asked_entry(f, ENTRIES - 1).solver.size, TUNING_WORD_MAX);
}

/* kilnd may have recorded the measurement before the connection broke. */
TEST_F(recording, an_unconfirmed_recording_is_resent_with_the_same_token)
{
    f->breaks = 1;
    must(find_put(f), f->err);
    assert_int_equal(f->daemon.requests, 2);
    assert_int_equal(f->token_count, 2);
    assert_memory_equal(f->tokens[0], f->tokens[1], TUNING_TOKEN_SIZE);
}

TEST_F(recording, each_recording_has_its_own_token)
{
    static const uint8_t zeros[TUNING_TOKEN_SIZE];
    must(find_put(f), f->err);
    must(find_put(f), f->err);
    assert_int_equal(f->token_count, 2);
    assert_memory_not_equal(f->tokens[0], f->tokens[1], TUNING_TOKEN_SIZE);
    assert_memory_not_equal(f->tokens[0], zeros, TUNING_TOKEN_SIZE);
}

static void refused(struct fixture *f, int rc, const char *part)
{
    assert_int_equal(rc, KILN_E_INVALID);
    assert_says(f->err.text, part);
    assert_int_equal(f->daemon.requests, 0);
}

TEST_F(recording, impossible_times_and_samples_are_refused)
{
    const double wrong[] = { -1, INFINITY, NAN };
    for (size_t i = 0; i < 3; i++) {
        f->measurements[1].median_ms = wrong[i];
        refused(f, find_put(f), "measurement 1");
        f->measurements[1].median_ms = 0.5;
        f->measurements[1].spread_ms = wrong[i];
        refused(f, perf_put(f), "measurement 1");
        f->measurements[1].spread_ms = 0.25;
    }
    f->measurements[0].samples = 0;
    refused(f, find_put(f), "no samples");
}

TEST_F(recording, names_that_cannot_be_part_of_a_record_are_refused)
{
    f->measurements[0].solver = "a:b";
    refused(f, find_put(f), "solver");
    f->measurements[0].solver = NULL;
    refused(f, perf_put(f), "solver");
    f->measurements[0].solver = "A";
    f->measurements[0].algorithm = "a,b";
    refused(f, find_put(f), "algorithm");
    f->measurements[0].algorithm = "direct";
    refused(f, find_put(f), "'direct'");
    f->measurements[0].solver = "Conv A";
    refused(f, perf_put(f), "'Conv A'");
    f->measurements[0].solver = "A";
    f->measurements[0].params = "1;2";
    refused(f, perf_put(f), "parameter text");
}

TEST_F(recording, an_invalid_recording_is_refused)
{
    static char long_text[2000];
    memset(long_text, 'x', sizeof(long_text) - 1);
    f->recording.measurement_count = ENTRIES + 1;
    refused(f, find_put(f), "257 measurements");
    f->recording.measurement_count = 0;
    refused(f, find_put(f), "no measurements");
    f->recording.measurement_count = 1;
    f->recording.tier = KILN_TUNING_SYSTEM;
    refused(f, find_put(f), "KILN_TUNING_USER");
    f->recording.tier = KILN_TUNING_USER;
    f->measurements[0].size = 1;
    refused(f, find_put(f), "kiln_measurement.size");
    f->recording.toolchain = long_text;
    refused(f, find_put(f), "1999 bytes");
    f->recording.toolchain = NULL;
    f->recording.measurements = NULL;
    refused(f, find_put(f), "measurements");
    f->recording.measurements = f->measurements;
    f->recording.backend = "Metal";
    refused(f, find_put(f), "'Metal'");
    f->recording.backend = NULL;
    f->recording.database_id = NULL;
    refused(f, find_put(f), "kiln_device_database_id()");
    f->recording.size = 8;
    refused(f, find_put(f), "kiln_recording.size");
    f->recording.size = sizeof(f->recording);
    f->recording.database_id = "gfx90a68";
    f->recording.timeout_ms = -1;
    refused(f, find_put(f), "-1");
    f->recording.timeout_ms = 0;
    f->problem.c = 0;
    refused(f, find_put(f), "in_channels");
    f->problem.c = 1;
    refused(f, kiln_find_put(NULL, &f->problem, &f->recording, &f->err), "no client");
}

static void deny(struct fake_request *rq)
{
    fake_reply_error(rq, KILN_DENIED, "only members of kiln-publish may", NULL);
}

TEST_F(recording, kilnds_refusal_is_reported)
{
    f->daemon.handle = deny;
    assert_int_equal(perf_put(f), KILN_E_DENIED);
    assert_string_equal(f->err.text, "only members of kiln-publish may");
}

TEST_F(recording, only_a_confirmation_with_the_right_count_is_accepted)
{
    f->more = -1;
    assert_int_equal(perf_put(f), KILN_E_CORRUPT);
    assert_says(f->err.text, "2 measurements");
    f->daemon.handle = fake_pong;
    assert_int_equal(perf_put(f), KILN_E_CORRUPT);
}
