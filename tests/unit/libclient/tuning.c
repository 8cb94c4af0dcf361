/* SPDX-License-Identifier: MIT */
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/unit/libclient/fake_tuning.h"

#include <math.h>
#include <string.h>

#define FIND_NEW "SolverA:0.25,4096,AlgoOne;SolverB:1.5e-05,0,AlgoTwo"
#define FIND_OLD "AlgoOne:SolverA,0.25,4096,AlgoOne,<unused>"
#define PERF "SolverA:1,2,3;SolverB:16"

struct fixture {
    struct fake_daemon daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_problem problem;
    struct kiln_tuning_options options;
    struct kiln_tuned *tuned;

    struct message_tuning_answer answer;
    struct message_tuning_measurement measurements[3];
    uint32_t measurement_count;
    int more_counted; /* added to the number of answers that the reply announces */
    uint16_t type, flags;
    unsigned copies;
    atomic_bool silent;
    unsigned stops; /* number of the next requests that the daemon rejects because it is stopping */
    size_t keep;    /* number of bytes of the reply's body to send; SIZE_MAX means all */
    size_t flip;    /* index of the byte of the reply's body to change; SIZE_MAX means none */
    size_t body_size; /* size of the last reply's body */

    struct message_tuning_get asked;
    struct problem asked_problem;
    char asked_id[32], asked_backend[32], asked_driver[32], asked_toolchain[32];
};

static void copy_text(char text[32], struct bytes from)
{
    assert_true(from.size < 32);
    memcpy(text, from.data, from.size);
    text[from.size] = '\0';
}

static void note(struct fixture *f, const struct fake_request *rq)
{
    f->asked = fake_tuning_question(rq);
    f->asked_problem = fake_tuning_problem(&f->asked, 0);
    copy_text(f->asked_id, f->asked.database_id);
    copy_text(f->asked_backend, f->asked.backend);
    copy_text(f->asked_driver, f->asked.driver);
    copy_text(f->asked_toolchain, f->asked.toolchain);
}

static void answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (atomic_load(&f->silent))
        return;
    note(f, rq);
    BUFFER_AUTO struct buffer measured, answers, body;
    buffer_init(&measured, 100000);
    buffer_init(&answers, 1 << 20);
    buffer_init(&body, 1 << 20);
    for (uint32_t i = 0; i < 3 && i < f->measurement_count; i++)
        message_tuning_measurement_write(&measured, &f->measurements[i]);
    struct message_tuning_answer a = f->answer;
    a.measurement_count = f->measurement_count;
    a.measurements = buffer_view(&measured);
    for (unsigned i = 0; i < f->copies; i++)
        message_tuning_answer_write(&answers, &a);
    struct message_tuned m = { .count = f->copies + (uint32_t)f->more_counted,
                               .answers = buffer_view(&answers) };
    message_tuned_write(&body, &m);
    f->body_size = body.size;
    if (f->flip < body.size)
        body.data[f->flip] ^= 0x41;
    if (f->keep < body.size)
        body.size = f->keep;
    fake_reply(rq, f->type, f->flags, buffer_view(&body));
}

static void put_off_or_answer(struct fake_request *rq)
{
    struct fixture *f = rq->daemon->context;
    if (f->stops == 0) {
        answer(rq);
        return;
    }
    f->stops--;
    rq->daemon->stopping = true;
    struct fake_tuned t = { 0 };
    fake_tuned_add(&t, &(struct message_tuning_answer){ .code = KILN_UNAVAILABLE });
    fake_tuned_reply(&t, rq, 0);
    buffer_done(&t.answers);
    rq->daemon->stopping = false;
    fake_hang_up(rq);
}

SET_UP(set_up)
{
    *f = (struct fixture){
        .problem = public_test_problem(1),
        .options = { .size = sizeof(f->options), .database_id = "gfx90a68" },
        .answer = fake_tuning_answer(0, FIND_NEW),
        .type = MESSAGE_tuned,
        .copies = 1,
        .keep = SIZE_MAX,
        .flip = SIZE_MAX,
    };
    for (size_t i = 0; i < 3; i++)
        f->measurements[i] =
            (struct message_tuning_measurement){ .id = bytes_of_text(i ? "SolverA" : "SolverB"),
                                                 .samples = 9,
                                                 .median_ms = fake_real(0.5),
                                                 .spread_ms = fake_real(0.125),
                                                 .measured_at = 1700000000,
                                                 .uid = 1000,
                                                 .device_uuid = bytes_of_text("GPU-1"),
                                                 .device = bytes_of_text("a\nb"),
                                                 .driver = bytes_of_text("6.2"),
                                                 .toolchain = bytes_of_text("clang"),
                                                 .library = bytes_of_text("libkiln"),
                                                 .clock_mhz = 1700 };
    fake_daemon_serve(&f->daemon, put_off_or_answer, f, &f->client);
}

TEAR_DOWN(tear_down) { kiln_tuned_free(f->tuned); }

FIXTURE(tuning, set_up, tear_down);

static int find(struct fixture *f)
{
    kiln_tuned_free(f->tuned);
    f->tuned = NULL;
    return kiln_find_get(f->client, &f->problem, &f->options, &f->tuned, &f->err);
}

static int perf(struct fixture *f)
{
    kiln_tuned_free(f->tuned);
    f->tuned = NULL;
    return kiln_perf_get(f->client, &f->problem, &f->options, &f->tuned, &f->err);
}

static struct kiln_tuned_entry entry(struct fixture *f, unsigned index)
{
    struct kiln_tuned_entry e = { .size = sizeof(e) };
    must(kiln_tuned_entry(f->tuned, index, &e, &f->err), f->err);
    return e;
}

TEST_F(tuning, a_find_record_reports_its_solvers_in_its_order)
{
    must(find(f), f->err);

    assert_int_equal(kiln_tuned_tier(f->tuned), KILN_TUNING_HOST);
    assert_string_equal(kiln_tuned_key(f->tuned), "key");
    assert_string_equal(kiln_tuned_text(f->tuned), FIND_NEW);
    assert_int_equal(kiln_tuned_count(f->tuned), 2);
    struct kiln_tuned_entry a = entry(f, 0), b = entry(f, 1);
    assert_string_equal(a.solver, "SolverA");
    assert_string_equal(a.algorithm, "AlgoOne");
    assert_string_equal(a.params, "");
    assert_true(a.time_ms == 0.25);
    assert_int_equal(a.workspace, 4096);
    assert_string_equal(b.solver, "SolverB");
    assert_string_equal(b.algorithm, "AlgoTwo");
    assert_true(b.time_ms == 1.5e-05);
    assert_int_equal(b.samples, 0);
    assert_string_equal(b.driver, "");
}

TEST_F(tuning, the_old_dialect_says_the_same)
{
    f->answer.value = bytes_of_text(FIND_OLD);

    must(find(f), f->err);

    struct kiln_tuned_entry e = entry(f, 0);
    assert_string_equal(kiln_tuned_text(f->tuned), FIND_OLD);
    assert_string_equal(e.solver, "SolverA");
    assert_string_equal(e.algorithm, "AlgoOne");
    assert_true(e.time_ms == 0.25);
    assert_int_equal(e.workspace, 4096);
}

TEST_F(tuning, a_perf_record_reports_parameters)
{
    f->answer.value = bytes_of_text(PERF);

    must(perf(f), f->err);

    struct kiln_tuned_entry a = entry(f, 0), b = entry(f, 1);
    assert_string_equal(a.solver, "SolverA");
    assert_string_equal(a.params, "1,2,3");
    assert_string_equal(a.algorithm, "");
    assert_true(a.time_ms == 0);
    assert_string_equal(b.params, "16");
}

TEST_F(tuning, a_record_reports_the_user_that_measured_it)
{
    f->answer.value = bytes_of_text(PERF);
    f->measurement_count = 2;
    f->options.measurements = 1;

    must(perf(f), f->err);

    struct kiln_tuned_entry a = entry(f, 0);
    assert_true(f->asked.flags & TUNING_MEASUREMENTS);
    assert_int_equal(a.samples, 9);
    assert_true(a.median_ms == 0.5 && a.spread_ms == 0.125 && a.time_ms == 0.5);
    assert_int_equal(a.measured_at, 1700000000);
    assert_int_equal(a.uid, 1000);
    assert_string_equal(a.device_uuid, "GPU-1");
    assert_string_equal(a.device, "a b");
    assert_string_equal(a.driver, "6.2");
    assert_string_equal(a.toolchain, "clang");
    assert_string_equal(a.library, "libkiln");
    assert_int_equal(a.clock_mhz, 1700);
}

TEST_F(tuning, a_find_entry_keeps_the_records_time_beside_the_measured_one)
{
    f->measurement_count = 2;
    f->options.measurements = 1;
    must(find(f), f->err);
    assert_true(entry(f, 0).time_ms == 0.25);
    assert_true(entry(f, 0).median_ms == 0.5);

    f->answer.value = bytes_of_text(FIND_OLD);
    f->measurements[0].id = f->measurements[1].id = bytes_of_text("AlgoOne");
    must(find(f), f->err);
    /* a measurement is matched with an entry by the entry's id */
    assert_true(entry(f, 0).median_ms == 0.5);
}

TEST_F(tuning, marks_and_distances_are_reported)
{
    double batch, spatial;
    must(find(f), f->err);
    assert_int_equal(kiln_tuned_is_stale(f->tuned), 0);
    assert_int_equal(kiln_tuned_is_near(f->tuned), 0);
    f->options.nearest = 1;
    f->answer.flags = TUNING_STALE | TUNING_NEAR;
    f->answer.batch_ratio = fake_real(4);
    f->answer.spatial_ratio = fake_real(1.5);

    must(find(f), f->err);

    assert_true(f->asked.flags & TUNING_NEAREST);
    assert_int_equal(kiln_tuned_is_stale(f->tuned), 1);
    assert_int_equal(kiln_tuned_is_near(f->tuned), 1);
    kiln_tuned_distance(f->tuned, &batch, &spatial);
    assert_true(batch == 4 && spatial == 1.5);
}

TEST_F(tuning, a_record_outlives_its_client)
{
    must(find(f), f->err);

    kiln_client_close(f->client);
    f->client = NULL;

    assert_string_equal(entry(f, 1).solver, "SolverB");
}

TEST_F(tuning, every_call_asks_for_records_change)
{
    must(find(f), f->err);
    f->answer.value = bytes_of_text(FIND_OLD);

    must(find(f), f->err);

    assert_int_equal(f->daemon.requests, 2);
    assert_string_equal(kiln_tuned_text(f->tuned), FIND_OLD);
}

TEST_F(tuning, a_look_up_sends_every_option)
{
    f->problem.n = 77;
    f->options.driver = "6.2.4";
    f->options.toolchain = "clang 17";

    must(find(f), f->err);
    assert_int_equal(f->asked.kind, TUNING_FIND);
    assert_int_equal(f->asked.flags, 0);
    assert_int_equal(f->asked.count, 1);
    assert_int_equal(f->asked_problem.n, 77);
    assert_int_equal(f->asked_problem.dilation.w, 1);
    assert_string_equal(f->asked_id, "gfx90a68");
    assert_string_equal(f->asked_backend, "HIP");
    assert_string_equal(f->asked_driver, "6.2.4");
    assert_string_equal(f->asked_toolchain, "clang 17");

    f->options.backend = "OpenCL";
    must(find(f), f->err);
    assert_string_equal(f->asked_backend, "OpenCL");

    f->answer.value = bytes_of_text(PERF);
    must(perf(f), f->err);
    assert_int_equal(f->asked.kind, TUNING_PERF);
    assert_string_equal(f->asked_backend, "");
}

TEST_F(tuning, invalid_arguments_are_refused_without_asking_kilnd)
{
    char long_text[2000];
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    assert_int_equal(kiln_find_get(NULL, &f->problem, &f->options, &f->tuned, &f->err),
                     KILN_E_INVALID);
    assert_int_equal(kiln_find_get(f->client, &f->problem, &f->options, NULL, &f->err),
                     KILN_E_INVALID);
    assert_int_equal(kiln_find_get(f->client, &f->problem, NULL, &f->tuned, &f->err),
                     KILN_E_INVALID);
    f->options.timeout_ms = -1;
    assert_int_equal(find(f), KILN_E_INVALID);
    f->options.timeout_ms = 0;
    f->problem.stride[1] = 0;
    assert_int_equal(find(f), KILN_E_INVALID);
    assert_says(f->err.text, "conv_stride_h");
    f->problem.stride[1] = 1;
    f->options.driver = long_text;
    assert_int_equal(find(f), KILN_E_INVALID);
    assert_says(f->err.text, "driver");
    f->options.driver = NULL;
    f->options.database_id = "";
    assert_int_equal(find(f), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_device_database_id()");
    f->options.size = 3;
    assert_int_equal(find(f), KILN_E_INVALID);
    assert_says(f->err.text, "size");
    assert_int_equal(f->daemon.requests, 0);
}

TEST_F(tuning, an_entry_that_is_not_there_is_refused)
{
    struct kiln_tuned_entry e = { .size = sizeof(e) };
    must(find(f), f->err);
    assert_int_equal(kiln_tuned_entry(f->tuned, 2, &e, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "has 2");
    assert_int_equal(kiln_tuned_entry(NULL, 0, &e, &f->err), KILN_E_INVALID);
    e.size = 8;
    assert_int_equal(kiln_tuned_entry(f->tuned, 0, &e, &f->err), KILN_E_INVALID);
}

TEST_F(tuning, a_caller_with_a_larger_struct_keeps_what_the_library_does_not_know)
{
    struct {
        struct kiln_tuned_entry known;
        int unknown;
    } e = { .known = { .size = sizeof(e) }, .unknown = 7 };
    must(find(f), f->err);

    must(kiln_tuned_entry(f->tuned, 0, &e.known, &f->err), f->err);

    assert_string_equal(e.known.solver, "SolverA");
    assert_int_equal(e.known.size, sizeof(e));
    assert_int_equal(e.unknown, 7);
}

TEST_F(tuning, an_unknown_record_is_not_found)
{
    f->answer = (struct message_tuning_answer){ .code = KILN_NOT_FOUND };

    assert_int_equal(find(f), KILN_E_NOT_FOUND);

    assert_null(f->tuned);
    assert_says(f->err.text, "gfx90a68");
}

TEST_F(tuning, kilnds_reason_is_reported)
{
    f->answer = (struct message_tuning_answer){ .code = KILN_CORRUPT,
                                                .text = bytes_of_text("the index is damaged") };

    assert_int_equal(find(f), KILN_E_CORRUPT);

    assert_string_equal(f->err.text, "the index is damaged");
    assert_null(f->tuned);
    assert_int_equal(find(f), KILN_E_CORRUPT);
    assert_int_equal(f->daemon.connections, 1); /* the answer is valid, so the connection stays */
}

static void refuse(struct fake_request *rq)
{
    fake_reply_error(rq, KILN_UNAVAILABLE, "tuning.db is on a full disk", NULL);
}

TEST_F(tuning, a_refusal_is_reported)
{
    f->daemon.handle = refuse;

    assert_int_equal(find(f), KILN_E_UNAVAILABLE);

    assert_string_equal(f->err.text, "tuning.db is on a full disk");
}

TEST_F(tuning, an_answer_that_does_not_come_in_time_is_called_off)
{
    must(find(f), f->err); /* the handshake must not time out */
    atomic_store(&f->silent, true);

    f->options.timeout_ms = WAIT_MS;

    assert_int_equal(find(f), KILN_E_TIMED_OUT);

    assert_null(f->tuned);
    f->options.timeout_ms = 0;
    atomic_store(&f->silent, false);
    must(find(f), f->err);
    assert_int_equal(f->daemon.cancels, 1);
}

TEST_F(tuning, a_request_that_a_stopping_daemon_defers_is_sent_to_the_next)
{
    f->stops = 1;

    must(find(f), f->err);

    assert_int_equal(f->daemon.requests, 2);
    assert_int_equal(f->daemon.connections, 2);
}

TEST_F(tuning, a_forked_child_is_reported_to_open_its_own_client)
{
    must(find(f), f->err);
    pid_t child = fork();
    if (child == 0) {
        struct kiln_tuned *tuned = NULL;
        int rc = kiln_find_get(f->client, &f->problem, &f->options, &tuned, &f->err);
        bool still = strcmp(kiln_tuned_key(f->tuned), "key") == 0;
        _exit(rc == KILN_E_INVALID && strstr(f->err.text, "before fork") && still ? 0 : 1);
    }
    assert_int_equal(await_child(child), 0);
}

/* Checks that the client rejects the wrong answer that the test has prepared. The message must
 * contain |part|, and the client must close the connection. On the next connection, the client must
 * accept a correct answer. */
static void nonsense(struct fixture *f, const char *part)
{
    struct fixture good = *f;
    unsigned connections = f->daemon.connections;
    if (find(f) != KILN_E_CORRUPT)
        fail_msg("taken: %s", part);
    assert_null(f->tuned);
    assert_says(f->err.text, part);
    f->answer = fake_tuning_answer(0, FIND_NEW);
    f->measurement_count = 0;
    f->more_counted = 0;
    f->copies = 1;
    f->type = MESSAGE_tuned;
    f->flags = 0;
    must(find(f), f->err);
    assert_int_equal(f->daemon.connections, connections + 1);
    f->measurements[0] = good.measurements[1];
}

TEST_F(tuning, an_answer_of_the_wrong_shape_is_refused)
{
    must(find(f), f->err);
    f->type = MESSAGE_pong;
    nonsense(f, "damaged");
    f->copies = 2;
    nonsense(f, "twice");
    f->answer.index = 1;
    nonsense(f, "problem 1");
    f->copies = 0;
    nonsense(f, "0 problems");
    f->more_counted = 1;
    nonsense(f, "match");
    f->more_counted = -1;
    nonsense(f, "match");
}

TEST_F(tuning, an_invalid_record_is_refused)
{
    static char many[8000];
    for (size_t i = 0; i + 3 < sizeof(many); i += 3)
        memcpy(many + i, "a:;", 4);
    must(find(f), f->err);
    f->answer.tier = 0;
    nonsense(f, "tier 0");
    f->answer.tier = 4;
    nonsense(f, "tier 4");
    f->answer.key = (struct bytes){ 0 };
    nonsense(f, "key");
    f->answer.key = bytes_of_text("a\nb");
    nonsense(f, "key");
    f->answer.key = bytes_of_text(many);
    nonsense(f, "key");
    f->answer.value = bytes_of_text("SolverA:0.25,4096,AlgoOne;");
    nonsense(f, "';'");
    f->answer.value = bytes_of_text("SolverA:fast,4096,AlgoOne");
    nonsense(f, "fast");
    f->answer.value = bytes_of_text("SolverA:0.25,\x01,AlgoOne");
    nonsense(f, "0x01");
    f->answer.value = bytes_of_text(many);
    nonsense(f, "768 entries");
    f->answer.flags = TUNING_NEAR;
    nonsense(f, "neighbour");
}

TEST_F(tuning, an_impossible_distance_is_refused)
{
    const double wrong[] = { 0.5, -1, INFINITY, NAN };
    f->options.nearest = 1;
    must(find(f), f->err);
    for (size_t i = 0; i < 4; i++) {
        f->answer.flags = TUNING_NEAR;
        f->answer.batch_ratio = fake_real(wrong[i]);
        nonsense(f, "distance");
        f->answer.flags = TUNING_NEAR;
        f->answer.spatial_ratio = fake_real(wrong[i]);
        nonsense(f, "distance");
    }
}

TEST_F(tuning, measurements_of_solvers_outside_the_record_are_refused)
{
    const double wrong[] = { -1, INFINITY, NAN };
    must(find(f), f->err);
    for (size_t i = 0; i < 3; i++) {
        f->measurement_count = 1;
        f->measurements[0].median_ms = fake_real(wrong[i]);
        nonsense(f, "finite");
        f->measurement_count = 1;
        f->measurements[0].spread_ms = fake_real(wrong[i]);
        nonsense(f, "finite");
    }
    f->measurement_count = 1;
    f->measurements[0].id = bytes_of_text("SolverC");
    nonsense(f, "record");
    f->measurement_count = 4;
    nonsense(f, "record");
}

TEST_F(tuning, an_answer_cut_anywhere_is_refused)
{
    f->measurement_count = 2;
    must(find(f), f->err);
    size_t size = f->body_size;
    for (f->keep = 0; f->keep < size; f->keep++)
        assert_int_equal(find(f), KILN_E_CORRUPT);
}

TEST_F(tuning, an_answer_with_any_byte_changed_does_no_harm)
{
    f->measurement_count = 2;
    must(find(f), f->err);
    size_t size = f->body_size, refused = 0;
    for (f->flip = 0; f->flip < size; f->flip++)
        refused += find(f) != KILN_E_OK;
    assert_true(refused > size / 8);
}
