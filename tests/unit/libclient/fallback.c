/* SPDX-License-Identifier: MIT */
/* Tests that libkiln changes from kilnd to its substitute, and back. The tests use fakes of
 * both. */
#include "libclient/connection/fallback.h"
#include "libclient/connection/substitute.h"
#include "libclient/connection/transport_socket.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/fake_daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK_NS 2000000000ull /* how often daemon_check.c checks for kilnd */
#define BRIEF_MS 30            /* a grace period that the test lets expire */
#define NOT_LONG_MS 400
#define LONG_MS 60000u

static struct fixture {
    struct fake_daemon kilnd, engine;
    struct kiln_client *client;
    struct kiln_error err;
    atomic_uint answered;
} * fixture;

static struct {
    unsigned connects;
    bool is_broken;
    bool is_late;
} entry;

static enum kiln_code connect_engine(struct substitute_use *use, uint64_t deadline_ns,
                                     struct transport **ret_transport, struct kiln_err *err)
{
    (void)deadline_ns;
    snprintf(use->place, sizeof(use->place), "a fake serves in '/the/store'");
    if (entry.is_broken)
        return kiln_fail(err, KILN_IO, "the engine is broken");
    if (entry.is_late)
        return kiln_fail(err, KILN_TIMED_OUT, "the lock is held");
    entry.connects++;
    return transport_socket_connect(fixture->engine.path, ret_transport, err);
}

const struct substitute substitute = { .mode = "private",
                                       .level = KILN_LEVEL_PRIVATE,
                                       .connect = connect_engine };

static int connect_errno; /* errno of connect(2) to kilnd; 0: calls the real connect */
static uint64_t ahead_ns; /* added to the clock */
/* added to the clock when kilnd accepts a connection; longer than a client waits for a full kilnd
 */
static uint64_t each_connection_takes_ns;

WRAP(int, connect, int fd, const struct sockaddr *address, socklen_t size)
{
    const struct sockaddr_un *at = (const struct sockaddr_un *)address;
    if (!connect_errno || strcmp(at->sun_path, fixture->kilnd.path) != 0)
        return __real_connect(fd, address, size);
    errno = connect_errno;
    return -1;
}

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    uint64_t now = __real_clock_monotonic_ns() + ahead_ns;
    return each_connection_takes_ns
               ? now + each_connection_takes_ns * atomic_load(&fixture->kilnd.connections)
               : now;
}

static void answer_engine_ping(struct fake_request *rq)
{
    fixture->answered++;
    fake_pong(rq);
}

SET_UP(set_up)
{
    fixture = f;
    memset(&entry, 0, sizeof(entry));
    connect_errno = 0;
    ahead_ns = each_connection_takes_ns = 0;
    f->kilnd.handle = fake_pong;
    f->engine.handle = answer_engine_ping;
    fake_daemon_start(&f->engine);
    setenv("KILN_FALLBACK_NOTICE", "off", 1);
    unsetenv("KILN_FALLBACK_PATIENCE");
}

TEAR_DOWN(tear_down) { kiln_client_close(f->client); }

FIXTURE(fallback, set_up, tear_down);

static void open_client(struct fixture *f, const char *fallback, unsigned grace_ms)
{
    char text[16];
    fake_daemon_start(&f->kilnd);
    snprintf(text, sizeof(text), "%u", grace_ms);
    if (grace_ms)
        setenv("KILN_FALLBACK_PATIENCE", text, 1);
    const struct kiln_client_options options = { .size = sizeof(options),
                                                 .socket_path = f->kilnd.path,
                                                 .fallback = fallback };
    must(kiln_client_open(&options, &f->client, &f->err), f->err);
}

static int ping(struct fixture *f, int timeout_ms)
{
    return kiln_client_ping(f->client, timeout_ms, NULL, &f->err);
}

static struct kiln_status status(struct fixture *f)
{
    struct kiln_status s = { .size = sizeof(s) };
    must(kiln_client_status(f->client, &s, &f->err), f->err);
    return s;
}

static void expect_substitute_because(struct fixture *f, const char *reason)
{
    must(ping(f, 0), f->err);
    assert_int_equal(status(f).level, KILN_LEVEL_PRIVATE);
    assert_says(status(f).reason, reason);
    assert_true(f->answered > 0);
}

TEST_F(fallback, a_kilnd_that_refuses_this_libkiln_is_passed_over)
{
    f->kilnd.refusal = "the client is too old";
    open_client(f, "private", 0);
    expect_substitute_because(f, "rejects");
    assert_says(status(f).reason, "too old");
    assert_int_equal(f->kilnd.connections, 1);
}

TEST_F(fallback, a_kilnd_of_another_version_is_passed_over)
{
    f->kilnd.version = 9;
    open_client(f, "private", 0);
    expect_substitute_because(f, "version 9");
}

TEST_F(fallback, a_kilnd_that_this_user_may_not_reach_is_passed_over)
{
    connect_errno = EACCES;
    open_client(f, "private", 0);
    expect_substitute_because(f, "kilnd");
    assert_int_equal(f->kilnd.connections, 0);
}

TEST_F(fallback, a_full_kilnd_is_passed_over_after_a_while)
{
    f->kilnd.refusal = "too many connections";
    f->kilnd.refused = KILN_BUSY;
    each_connection_takes_ns = 10000000000u;
    open_client(f, "private", LONG_MS);
    expect_substitute_because(f, "many connections");
    kiln_client_close(f->client);
    /* the queue of kilnd's socket is full, which is also a reason to fall back */
    connect_errno = EAGAIN;
    fake_daemon_kill(&f->kilnd);
    open_client(f, "private", BRIEF_MS);
    expect_substitute_because(f, "connection");
}

TEST_F(fallback, a_kilnd_that_does_not_answer_hello_is_passed_over)
{
    f->kilnd.silent = true;
    open_client(f, "private", BRIEF_MS);
    expect_substitute_because(f, "hello");
}

TEST_F(fallback, brief_calls_add_up_to_the_same_grace)
{
    f->kilnd.silent = true;
    open_client(f, "private", LONG_MS);
    assert_int_equal(ping(f, BRIEF_MS), KILN_E_TIMED_OUT);
    ahead_ns += LONG_MS * 1000000ull;
    int rc = ping(f, BRIEF_MS);
    /* If the grace period ends during this call, the substitute answers, and the result is
     * KILN_E_OK. */
    assert_true(rc == KILN_E_TIMED_OUT || rc == KILN_E_OK);
    expect_substitute_because(f, "hello");
}

TEST_F(fallback, a_client_that_forbids_the_fallback_gets_the_refusal)
{
    f->kilnd.refusal = "the client is too old";
    open_client(f, "off", BRIEF_MS);
    assert_int_equal(ping(f, 0), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "too old");
    assert_int_equal(entry.connects, 0);
}

TEST_F(fallback, where_the_engine_fails_too_both_are_reported_and_kilnd_is_asked_again)
{
    f->kilnd.refusal = "the client is too old";
    entry.is_broken = true;
    open_client(f, "private", 0);
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(ping(f, 0), KILN_E_UNSUPPORTED);
        assert_says(f->err.text, "too old");
        assert_says(f->err.text, "engine");
        assert_int_equal(f->kilnd.connections, i);
    }
}

TEST_F(fallback, a_fallback_that_fails_without_a_kilnd_reports_both_reasons)
{
    connect_errno = ENOENT;
    entry.is_broken = true;
    open_client(f, "private", 0);
    assert_int_equal(ping(f, 0), KILN_E_IO);
    assert_says(f->err.text, "kilnd at");
    assert_says(f->err.text, "engine");
}

TEST_F(fallback, a_fallback_that_is_late_times_out)
{
    connect_errno = ENOENT;
    entry.is_late = true;
    open_client(f, "private", 0);
    assert_int_equal(ping(f, NOT_LONG_MS), KILN_E_TIMED_OUT);
    assert_says(f->err.text, "kilnd at");
    assert_says(f->err.text, "lock");
    entry.is_late = false;
    must(ping(f, 0), f->err);
}

TEST_F(fallback, a_grace_that_is_no_time_is_refused)
{
    static const char *const wrong[] = { "0", "-1", "5s", "x", "3600001", " 7" };
    const struct kiln_client_options options = { .size = sizeof(options), .socket_path = "/x" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setenv("KILN_FALLBACK_PATIENCE", wrong[i], 1);
        assert_int_equal(kiln_client_open(&options, &f->client, &f->err), KILN_E_INVALID);
        assert_says(f->err.text, "KILN_FALLBACK_PATIENCE");
    }
}

TEST_F(fallback, a_kilnd_that_still_refuses_is_looked_at_and_left_alone)
{
    f->kilnd.refusal = "the client is too old";
    open_client(f, "private", 0);
    expect_substitute_because(f, "too old");
    ahead_ns += CHECK_NS;
    expect_substitute_because(f, "too old");
    expect_substitute_because(f, "too old");
    /* the client waits only 20 ms for the answer to its look, but kilnd gets the connection */
    WAIT_FOR(atomic_load(&f->kilnd.connections) >= 2);
    assert_int_equal(f->kilnd.connections, 2);
    assert_int_equal(entry.connects, 1);
}

static bool has_gone_over(void *context)
{
    struct fixture *f = context;
    ahead_ns += CHECK_NS;
    must(ping(f, 0), f->err);
    return status(f).level == KILN_LEVEL_DAEMON;
}

TEST_F(fallback, a_kilnd_that_accepts_the_client_replaces_the_private_one)
{
    f->kilnd.refusal = "the client is too old";
    open_client(f, "private", 0);
    expect_substitute_because(f, "too old");
    fake_daemon_kill(&f->kilnd);
    f->kilnd.refusal = NULL;
    fake_daemon_start(&f->kilnd);
    wait_until("the client to use the host's kilnd", has_gone_over, f);
    assert_string_equal(status(f).reason, "");
}

TEST_F(fallback, a_kilnd_that_never_greets_does_not_replace_the_private_one)
{
    f->kilnd.silent = true;
    open_client(f, "private", BRIEF_MS);
    expect_substitute_because(f, "hello");
    for (unsigned i = 0; i < 3; i++) {
        ahead_ns += CHECK_NS;
        must(ping(f, 0), f->err);
    }
    assert_int_equal(entry.connects, 1);
}

static void take_lines(int fd, char *text, size_t size)
{
    ssize_t got = read(fd, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
}

TEST_F(fallback, the_notice_is_one_line_for_a_process)
{
    char text[4096];
    int ends[2], before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    connect_errno = ENOENT;
    unsetenv("KILN_FALLBACK_NOTICE");
    open_client(f, "private", BRIEF_MS);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    int rc = ping(f, 0);
    fake_daemon_kill(&f->engine);
    fake_daemon_start(&f->engine);
    rc |= ping(f, 0);
    dup2(before, STDERR_FILENO);
    close(before);
    take_lines(ends[0], text, sizeof(text));
    close(ends[0]);
    must(rc, f->err);
    assert_int_equal(entry.connects, 2);
    assert_says(text, "/the/store");
    assert_non_null(strchr(text, '\n'));
    assert_string_equal(strchr(text, '\n'), "\n");
}
