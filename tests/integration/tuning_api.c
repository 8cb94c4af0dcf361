/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/protocol/messages.h"
#include "tests/integration/host.h"
#include "tests/support/public_problem.h"
#include "tests/support/wait.h"

#include <fcntl.h>
#include <kiln/kiln.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define DEVICE "gfx90a68"
#define RECORDS 700u /* number of records; the problem of record n has batch size n */
#define ASKED (RECORDS + 50)
#define TUNERS 3u
#define CANDIDATES 100u
#define BEST 37u

struct fixture {
    struct daemon_process daemon;
    struct kiln_client *client;
    struct kiln_error err;
    struct kiln_tuning_options options;
    struct kiln_tuned *tuned;
};

static struct kiln_client *open_client(const struct fixture *f)
{
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = f->daemon.socket };
    struct kiln_client *client = NULL;
    return kiln_client_open(&options, &client, NULL) ? NULL : client;
}

SET_UP(set_up)
{
    *f = (struct fixture){ .options = { .size = sizeof(f->options), .database_id = DEVICE } };
    daemon_process_open(&f->daemon, NULL);
    f->client = open_client(f);
    assert_non_null(f->client);
}

TEAR_DOWN(tear_down)
{
    kiln_tuned_free(f->tuned);
    kiln_client_close(f->client);
}

FIXTURE(tuning_api, set_up, tear_down);

/* ---- problems and records ---- */

static void key_of(uint32_t n, char key[64])
{
    snprintf(key, 64, "4-8-8-3x3-8-8-8-%u-1x1-1x1-1x1-0-NCHW-FP32-F", n);
}

static void value_of(uint32_t n, char value[192])
{
    snprintf(value, 192,
             "SolverA:0.%u,%u,miopenConvolutionFwdAlgoDirect;SolverB:%u.5,0,"
             "miopenConvolutionFwdAlgoGEMM",
             n, n * 16, n);
}

/* Imports the records for all users, from a FindDb in the new dialect. */
static void import_records(struct fixture *f)
{
    char path[160], key[64], value[192];
    snprintf(path, sizeof(path), "%s/" DEVICE ".HIP.fdb.txt", f->daemon.directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    for (uint32_t n = 1; n <= RECORDS; n++) {
        key_of(n, key);
        value_of(n, value);
        fprintf(file, "%s=%s\n", key, value);
    }
    assert_int_equal(fclose(file), 0);
    __attribute__((cleanup(fd_auto))) int fd = open(path, O_RDONLY | O_CLOEXEC);
    const struct kiln_admin_call call = { .size = sizeof(call),
                                          .request = "tuning_import",
                                          .json = "{\"name\":\"" DEVICE ".HIP.fdb.txt\"}",
                                          .files = &fd,
                                          .file_count = 1 };
    char *json = NULL;
    must(kiln_admin_call(f->client, &call, &json, &f->err), f->err);
    assert_says(json, "\"records\":700");
    kiln_free(json);
}

static int find_record(struct fixture *f, uint32_t n)
{
    struct kiln_problem problem = public_test_problem(n);
    kiln_tuned_free(f->tuned);
    f->tuned = NULL;
    return kiln_find_get(f->client, &problem, &f->options, &f->tuned, &f->err);
}

static struct kiln_tuned_entry entry_at(struct fixture *f, unsigned index)
{
    struct kiln_tuned_entry e = { .size = sizeof(e) };
    must(kiln_tuned_entry(f->tuned, index, &e, &f->err), f->err);
    return e;
}

static struct kiln_recording recording_of(const struct kiln_measurement *measurement, int tier)
{
    return (struct kiln_recording){ .size = sizeof(struct kiln_recording),
                                    .database_id = DEVICE,
                                    .tier = tier,
                                    .device_uuid = "GPU-1",
                                    .device = "MI210",
                                    .driver = "6.2.4",
                                    .toolchain = "clang 17",
                                    .clock_mhz = 1700,
                                    .measurements = measurement,
                                    .measurement_count = 1 };
}

static struct kiln_measurement measurement_of(double ms)
{
    return (struct kiln_measurement){ .size = sizeof(struct kiln_measurement),
                                      .solver = "SolverC",
                                      .algorithm = "miopenConvolutionFwdAlgoWinograd",
                                      .params = "1,2,3",
                                      .workspace = 64,
                                      .samples = 11,
                                      .median_ms = ms,
                                      .spread_ms = 0.125 };
}

static int put_record(struct kiln_client *client, uint32_t n, int tier, double ms,
                      struct kiln_error *err)
{
    struct kiln_problem problem = public_test_problem(n);
    struct kiln_measurement m = measurement_of(ms);
    struct kiln_recording r = recording_of(&m, tier);
    return kiln_find_put(client, &problem, &r, err);
}

/* ---- look-up ---- */

static void expect_record(const struct kiln_tuned *tuned, uint32_t n)
{
    char key[64], value[192];
    key_of(n, key);
    value_of(n, value);
    assert_non_null(tuned);
    assert_string_equal(kiln_tuned_key(tuned), key);
    assert_string_equal(kiln_tuned_text(tuned), value);
    assert_int_equal(kiln_tuned_tier(tuned), KILN_TUNING_SYSTEM);
}

TEST_F(tuning_api, an_imported_record_is_answered_entry_by_entry)
{
    import_records(f);

    must(find_record(f, 25), f->err);

    expect_record(f->tuned, 25);
    assert_int_equal(kiln_tuned_count(f->tuned), 2);
    assert_string_equal(entry_at(f, 0).solver, "SolverA");
    assert_true(entry_at(f, 0).time_ms == 0.25);
    assert_int_equal(entry_at(f, 0).workspace, 400);
    assert_string_equal(entry_at(f, 1).algorithm, "miopenConvolutionFwdAlgoGEMM");
    assert_int_equal(find_record(f, RECORDS + 1), KILN_E_NOT_FOUND);
    f->options.backend = "OpenCL";
    assert_int_equal(find_record(f, 25), KILN_E_NOT_FOUND);
}

TEST_F(tuning_api, a_batch_answers_each_problem_in_its_place)
{
    static struct kiln_problem problems[ASKED];
    static struct kiln_tuned *tuned[ASKED];
    import_records(f);
    for (uint32_t i = 0; i < ASKED; i++)
        problems[i] = public_test_problem(ASKED - i);

    const struct kiln_tuning_batch batch = {
        .size = sizeof(batch), .problems = problems, .count = ASKED, .options = &f->options
    };
    must(kiln_find_get_batch(f->client, &batch, tuned, &f->err), f->err);

    for (uint32_t i = 0; i < ASKED; i++) {
        if (ASKED - i > RECORDS)
            assert_null(tuned[i]);
        else
            expect_record(tuned[i], ASKED - i);
        kiln_tuned_free(tuned[i]);
    }
}

TEST_F(tuning_api, a_nearby_record_answers_only_a_client_that_allows_one)
{
    double batch, spatial;
    import_records(f);
    assert_int_equal(find_record(f, 2 * RECORDS), KILN_E_NOT_FOUND);
    f->options.nearest = 1;

    must(find_record(f, 2 * RECORDS), f->err);

    expect_record(f->tuned, RECORDS);
    assert_int_equal(kiln_tuned_is_near(f->tuned), 1);
    kiln_tuned_distance(f->tuned, &batch, &spatial);
    assert_true(batch == 2 && spatial == 1);
    must(find_record(f, 5), f->err);
    assert_int_equal(kiln_tuned_is_near(f->tuned), 0);
}

/* ---- recording ---- */

TEST_F(tuning_api, a_recorded_measurement_is_found_with_its_origin)
{
    must(put_record(f->client, 900, KILN_TUNING_USER, 0.5, &f->err), f->err);
    f->options.measurements = 1;
    f->options.driver = "6.2.4";
    f->options.toolchain = "clang 17";

    must(find_record(f, 900), f->err);

    struct kiln_tuned_entry e = entry_at(f, 0);
    assert_int_equal(kiln_tuned_tier(f->tuned), KILN_TUNING_USER);
    assert_int_equal(kiln_tuned_is_stale(f->tuned), 0);
    assert_string_equal(e.solver, "SolverC");
    assert_string_equal(e.algorithm, "miopenConvolutionFwdAlgoWinograd");
    assert_true(e.time_ms == 0.5 && e.median_ms == 0.5 && e.spread_ms == 0.125);
    assert_int_equal(e.workspace, 64);
    assert_int_equal(e.samples, 11);
    assert_int_equal(e.uid, geteuid());
    assert_true(e.measured_at > 1700000000);
    assert_string_equal(e.device_uuid, "GPU-1");
    assert_string_equal(e.device, "MI210");
    assert_string_equal(e.driver, "6.2.4");
    assert_string_equal(e.toolchain, "clang 17");
    assert_says(e.library, "libkiln");
    assert_int_equal(e.clock_mhz, 1700);
    f->options.driver = "7.0";
    must(find_record(f, 900), f->err);
    assert_int_equal(kiln_tuned_is_stale(f->tuned), 1);
}

TEST_F(tuning_api, parameters_are_recorded_along_with_times)
{
    struct kiln_problem problem = public_test_problem(1);
    struct kiln_measurement m = measurement_of(0.5);
    struct kiln_recording r = recording_of(&m, KILN_TUNING_USER);
    must(kiln_perf_put(f->client, &problem, &r, &f->err), f->err);
    m.solver = "SolverD";
    must(kiln_perf_put(f->client, &problem, &r, &f->err), f->err);

    must(kiln_perf_get(f->client, &problem, &f->options, &f->tuned, &f->err), f->err);

    assert_int_equal(kiln_tuned_count(f->tuned), 2);
    assert_string_equal(entry_at(f, 0).params, "1,2,3");
    assert_int_equal(find_record(f, 1), KILN_E_NOT_FOUND);
}

TEST_F(tuning_api, the_users_record_counts_before_the_hosts_and_that_before_the_imported)
{
    import_records(f);
    must(find_record(f, 7), f->err);
    assert_int_equal(kiln_tuned_tier(f->tuned), KILN_TUNING_SYSTEM);

    must(put_record(f->client, 7, KILN_TUNING_HOST, 2, &f->err), f->err);
    must(find_record(f, 7), f->err);
    assert_int_equal(kiln_tuned_tier(f->tuned), KILN_TUNING_HOST);
    assert_true(entry_at(f, 0).time_ms == 2);

    must(put_record(f->client, 7, KILN_TUNING_USER, 3, &f->err), f->err);
    must(find_record(f, 7), f->err);
    assert_int_equal(kiln_tuned_tier(f->tuned), KILN_TUNING_USER);
    assert_true(entry_at(f, 0).time_ms == 3);
    must(find_record(f, 8), f->err);
    assert_int_equal(kiln_tuned_tier(f->tuned), KILN_TUNING_SYSTEM);
}

TEST_F(tuning_api, recorded_measurements_outlive_a_killed_daemon)
{
    import_records(f);
    must(put_record(f->client, 7, KILN_TUNING_USER, 3, &f->err), f->err);
    daemon_process_kill(&f->daemon);
    daemon_process_start(&f->daemon);

    must(find_record(f, 7), f->err);

    assert_true(entry_at(f, 0).time_ms == 3);
    must(find_record(f, 8), f->err);
    expect_record(f->tuned, 8);
}

/* ---- a lost connection ---- */

/* Forwards frames between a client and kilnd. Drops the first |recorded| reply and closes the
 * connection, so that the client does not know whether kilnd has recorded the measurement. */
struct relay {
    struct sockaddr_un here, kilnd;
    int listening, stop[2];
    bool lost;
    pthread_t thread;
};

static int relay_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

/* Returns false if |bytes| contain the reply to drop. A read never ends within a frame, because
 * kilnd's frames are short. */
static bool may_pass(struct relay *r, const uint8_t *bytes, ssize_t size)
{
    for (ssize_t at = 0; at + FRAME_HEADER_SIZE <= size;) {
        struct frame_header header;
        struct kiln_err err = KILN_ERR_INIT;
        if (frame_header_read(bytes + at, &header, &err))
            return true;
        if (header.type == MESSAGE_recorded && !r->lost) {
            r->lost = true;
            return false;
        }
        at += FRAME_HEADER_SIZE + (ssize_t)header.body_size;
    }
    return true;
}

static bool forward(struct relay *r, int from, int to, bool is_kilnds)
{
    uint8_t bytes[65536];
    ssize_t size = read(from, bytes, sizeof(bytes));
    return size > 0 && (!is_kilnds || may_pass(r, bytes, size)) &&
           write(to, bytes, (size_t)size) == size;
}

static void relay_one(struct relay *r, int client)
{
    int kilnd = relay_socket();
    bool goes_on = connect(kilnd, (const struct sockaddr *)&r->kilnd, sizeof(r->kilnd)) == 0;
    while (goes_on) {
        struct pollfd p[] = { { .fd = r->stop[0], .events = POLLIN },
                              { .fd = client, .events = POLLIN },
                              { .fd = kilnd, .events = POLLIN } };
        goes_on = await_work(p, 3);
        if (goes_on && p[1].revents)
            goes_on = forward(r, client, kilnd, false);
        if (goes_on && p[2].revents)
            goes_on = forward(r, kilnd, client, true);
    }
    close(kilnd);
    close(client);
}

/* A record contains its time in seconds, so two equal measurements within a second would be the
 * same record. */
static void wait_for_another_second(void)
{
    uint64_t then = clock_wall_s();
    WAIT_FOR(clock_wall_s() != then);
}

static void *relay_run(void *argument)
{
    struct relay *r = argument;
    bool had_lost = false;
    for (;;) {
        struct pollfd p[] = { { .fd = r->stop[0], .events = POLLIN },
                              { .fd = r->listening, .events = POLLIN } };
        if (!await_work(p, 2))
            return NULL;
        if (r->lost && !had_lost)
            wait_for_another_second();
        had_lost = r->lost;
        int client = accept4(r->listening, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            relay_one(r, client);
    }
}

static void relay_start(struct relay *r, const struct fixture *f)
{
    *r = (struct relay){ .here = { .sun_family = AF_UNIX }, .kilnd = { .sun_family = AF_UNIX } };
    snprintf(r->here.sun_path, sizeof(r->here.sun_path), "%.90s/relay", f->daemon.directory);
    snprintf(r->kilnd.sun_path, sizeof(r->kilnd.sun_path), "%.100s", f->daemon.socket);
    r->listening = relay_socket();
    assert_true(r->listening >= 0);
    assert_int_equal(pipe2(r->stop, O_CLOEXEC), 0);
    assert_int_equal(bind(r->listening, (const struct sockaddr *)&r->here, sizeof(r->here)), 0);
    assert_int_equal(listen(r->listening, 4), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, relay_run, r), 0);
}

static void relay_stop(struct relay *r)
{
    close(r->stop[1]);
    await_thread(r->thread, NULL);
    close(r->stop[0]);
    close(r->listening);
}

TEST_F(tuning_api, a_measurement_whose_confirmation_was_lost_counts_once)
{
    struct relay relay;
    struct fixture behind = *f;
    relay_start(&relay, f);
    snprintf(behind.daemon.socket, sizeof(behind.daemon.socket), "%s", relay.here.sun_path);
    behind.client = open_client(&behind);

    must(put_record(behind.client, 900, KILN_TUNING_USER, 0.5, &f->err), f->err);

    kiln_client_close(behind.client);
    relay_stop(&relay);
    assert_true(relay.lost);
    f->options.measurements = 1;
    must(find_record(f, 900), f->err);
    assert_int_equal(entry_at(f, 0).samples, 11);
}

/* ---- two users ---- */

/* Runs |act| as another user, and returns its result, or 200 if that user could not connect. */
static int as_another(struct fixture *f, int (*act)(struct fixture *f))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return wait_program(pid);
    if (!become_other_user())
        _exit(200);
    kiln_tuned_free(f->tuned);
    kiln_client_close(f->client);
    f->tuned = NULL;
    f->client = open_client(f);
    _exit(f->client ? act(f) : 200);
}

static int find_seven(struct fixture *f)
{
    int rc = find_record(f, 7);
    return rc ? rc : 100 + kiln_tuned_tier(f->tuned);
}

static int put_for_the_host(struct fixture *f)
{
    return put_record(f->client, 7, KILN_TUNING_HOST, 9, &f->err);
}

static int put_for_oneself(struct fixture *f)
{
    int rc = put_record(f->client, 7, KILN_TUNING_USER, 9, &f->err);
    if (!rc)
        rc = find_record(f, 7);
    return rc ? rc : entry_at(f, 0).time_ms == 9 ? 0 : 201;
}

static int take_lease(struct fixture *f)
{
    struct kiln_problem problem = public_test_problem(7);
    const struct kiln_lease_request request = { .size = sizeof(request),
                                                .database_id = DEVICE,
                                                .solver = "SolverC" };
    struct kiln_lease lease = { .size = sizeof(lease) };
    int rc = kiln_lease_take(f->client, &problem, &request, &lease, &f->err);
    return rc ? rc : 100 + lease.state;
}

TEST_F(tuning_api, a_user_neither_sees_nor_changes_records_of_others)
{
    need_root();
    admit_all_users(&f->daemon);
    must(put_record(f->client, 7, KILN_TUNING_USER, 3, &f->err), f->err);

    assert_int_equal(as_another(f, find_seven), KILN_E_NOT_FOUND);
    assert_int_equal(as_another(f, put_for_the_host), KILN_E_DENIED);
    must(put_record(f->client, 7, KILN_TUNING_HOST, 2, &f->err), f->err);
    assert_int_equal(as_another(f, find_seven), 100 + KILN_TUNING_HOST);
    assert_int_equal(as_another(f, put_for_oneself), 0);
    assert_int_equal(as_another(f, find_seven), 100 + KILN_TUNING_USER);
    must(find_record(f, 7), f->err);
    assert_true(entry_at(f, 0).time_ms == 3);
    assert_int_equal(take_lease(f), 100 + KILN_LEASE_GRANTED);
    assert_int_equal(as_another(f, take_lease), 100 + KILN_LEASE_GRANTED);
}

/* ---- leases ---- */

struct tuner { /* a process that measures the candidates of its lease */
    struct fixture *f;
    struct kiln_client *client;
    struct kiln_problem problem;
    /* pipe to which the process writes a byte when it has its first lease */
    int holds;
    /* pipe from which the process reads a byte before it measures the candidates of that lease */
    int go_on;
    /* pipe to which the process writes the number of each candidate that it has measured */
    int log;
    bool began;
};

static double time_of(uint32_t candidate)
{
    return 1 + (candidate < BEST ? BEST - candidate : candidate - BEST);
}

static bool is_known(struct tuner *t)
{
    struct kiln_tuned *tuned = NULL;
    int rc = kiln_perf_get(t->client, &t->problem, &t->f->options, &tuned, NULL);
    kiln_tuned_free(tuned);
    return rc == KILN_E_OK;
}

static void begin_tuning(struct tuner *t)
{
    char byte = 'x';
    if (write(t->holds, &byte, 1) != 1 || read(t->go_on, &byte, 1) != 1)
        _exit(210);
    t->began = true;
}

static void measure_share(struct tuner *t, struct kiln_lease *lease)
{
    struct kiln_measurement best = measurement_of(1e9);
    struct kiln_recording r = recording_of(&best, KILN_TUNING_USER);
    char params[16];
    if (!t->began)
        begin_tuning(t);
    for (uint32_t i = lease->first; i < lease->first + lease->count; i++) {
        if (write(t->log, &i, sizeof(i)) != sizeof(i))
            _exit(211);
        if (time_of(i) >= best.median_ms)
            continue;
        best.median_ms = time_of(i);
        snprintf(params, sizeof(params), "%u", i);
        best.params = params;
    }
    if (kiln_lease_report(t->client, lease, &r, lease, NULL))
        _exit(212);
}

static void run_tuner(struct tuner *t)
{
    const struct kiln_lease_request request = { .size = sizeof(request),
                                                .database_id = DEVICE,
                                                .solver = "SolverC",
                                                .candidates = CANDIDATES,
                                                .share = 1,
                                                .wait_ms = 60000 };
    struct kiln_lease lease = { .size = sizeof(lease) };
    bool was_taken = false;
    while (!is_known(t)) {
        if (kiln_lease_take(t->client, &t->problem, &request, &lease, NULL))
            _exit(213);
        if (lease.state == KILN_LEASE_GRANTED && was_taken && is_known(t))
            return;
        while (lease.state == KILN_LEASE_GRANTED)
            measure_share(t, &lease);
        was_taken = lease.state == KILN_LEASE_TAKEN;
    }
}

static pid_t start_tuner(struct fixture *f, int holds, int go_on, int log)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(2 * WAIT_MAX_S);
    struct tuner t = { .f = f,
                       .client = open_client(f),
                       .problem = public_test_problem(1),
                       .holds = holds,
                       .go_on = go_on,
                       .log = log };
    if (!t.client)
        _exit(214);
    run_tuner(&t);
    _exit(0);
}

/* Waits until kilnd has noticed all closed connections: kilnd reads the second ping only after
 * it has handled everything that was pending at the first one. */
static void let_kilnd_notice(struct fixture *f)
{
    for (int i = 0; i < 2; i++)
        must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err);
}

static void expect_each_once(int log)
{
    unsigned measured_count[CANDIDATES] = { 0 };
    uint32_t candidate;
    while (read(log, &candidate, sizeof(candidate)) == sizeof(candidate)) {
        assert_in_range(candidate, 0, CANDIDATES - 1);
        measured_count[candidate]++;
    }
    for (uint32_t i = 0; i < CANDIDATES; i++)
        assert_int_equal(measured_count[i], 1);
}

static bool tuners_have_shares(void *holds)
{
    int bytes = 0;
    return ioctl(*(int *)holds, FIONREAD, &bytes) == 0 && bytes == TUNERS;
}

TEST_F(tuning_api, processes_share_the_measurements_though_one_is_killed)
{
    struct kiln_problem problem = public_test_problem(1);
    int holds[2], go_on[2], log[2];
    pid_t pids[TUNERS];
    char bytes[TUNERS] = { 0 };
    assert_int_equal(pipe2(holds, O_CLOEXEC) | pipe2(go_on, O_CLOEXEC) | pipe2(log, O_CLOEXEC), 0);
    for (unsigned i = 0; i < TUNERS; i++)
        pids[i] = start_tuner(f, holds[1], go_on[0], log[1]);
    wait_until("every tuner to have a share", tuners_have_shares, &holds[0]);
    assert_int_equal(read(holds[0], bytes, TUNERS), TUNERS);

    assert_int_equal(kill(pids[0], SIGKILL), 0);
    assert_int_equal(wait_program(pids[0]), 128 + SIGKILL);
    let_kilnd_notice(f);
    assert_int_equal(write(go_on[1], bytes, TUNERS - 1), TUNERS - 1);
    for (unsigned i = 1; i < TUNERS; i++)
        assert_int_equal(wait_program(pids[i]), 0);

    close(log[1]);
    expect_each_once(log[0]);
    f->options.measurements = 1;
    must(kiln_perf_get(f->client, &problem, &f->options, &f->tuned, &f->err), f->err);
    assert_string_equal(entry_at(f, 0).params, "37");
    assert_true(entry_at(f, 0).median_ms == 1);
    assert_string_equal(entry_at(f, 0).device_uuid, "GPU-1");
    for (size_t i = 0; i < 2; i++) {
        close(holds[i]);
        close(go_on[i]);
    }
    close(log[0]);
}

static void *wait_for_lease(void *argument)
{
    struct fixture *f = argument;
    struct kiln_problem problem = public_test_problem(7);
    const struct kiln_lease_request request = {
        .size = sizeof(request), .database_id = DEVICE, .solver = "SolverC", .wait_ms = 60000
    };
    struct kiln_lease lease = { .size = sizeof(lease) };
    struct kiln_client *client = open_client(f);
    int rc = kiln_lease_take(client, &problem, &request, &lease, NULL);
    kiln_client_close(client);
    return rc || lease.state != KILN_LEASE_GRANTED ? f : NULL;
}

TEST_F(tuning_api, an_unshared_lease_goes_to_a_waiter_when_its_holder_leaves)
{
    pthread_t waiting;
    void *failed;
    assert_int_equal(take_lease(f), 100 + KILN_LEASE_GRANTED);
    assert_int_equal(pthread_create(&waiting, NULL, wait_for_lease, f), 0);
    struct fixture other = *f;
    other.client = open_client(f);
    assert_int_equal(take_lease(&other), 100 + KILN_LEASE_TAKEN);
    kiln_client_close(other.client);

    kiln_client_close(f->client);

    await_thread(waiting, &failed);
    assert_null(failed);
    f->client = NULL;
}

TEST(tuning_api, a_lease_does_not_outlive_the_daemon_that_gave_it)
{
    struct fixture *f = *state;
    struct kiln_problem problem = public_test_problem(7);
    const struct kiln_lease_request request = {
        .size = sizeof(request), .database_id = DEVICE, .solver = "SolverC", .candidates = 8
    };
    struct kiln_lease lease = { .size = sizeof(lease) };
    struct kiln_measurement best = measurement_of(1);
    struct kiln_recording r = recording_of(&best, KILN_TUNING_USER);
    must(kiln_lease_take(f->client, &problem, &request, &lease, &f->err), f->err);
    daemon_process_kill(&f->daemon);
    daemon_process_start(&f->daemon);
    must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err);

    assert_int_equal(kiln_lease_report(f->client, &lease, &r, &lease, &f->err), KILN_E_NOT_FOUND);

    assert_says(f->err.text, "connection");
    must(kiln_lease_take(f->client, &problem, &request, &lease, &f->err), f->err);
    assert_int_equal(lease.state, KILN_LEASE_GRANTED);
    assert_int_equal(lease.first, 0);
    must(kiln_lease_report(f->client, &lease, &r, &lease, &f->err), f->err);
    assert_int_equal(lease.state, KILN_LEASE_GRANTED);
    must(kiln_lease_report(f->client, &lease, &r, &lease, &f->err), f->err);
    assert_int_equal(lease.state, KILN_LEASE_DONE);
}
