/* SPDX-License-Identifier: MIT */
#include "tests/support/raw_client.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGET "gfx90a"
#define PROGRAM "extern \"C\" __attribute__((global)) void k(float *y) { *y = 1.0f; }\n"

/* Maximum of kilnd's resident memory. It is higher with sanitizers, which need shadow memory, and
 * keep freed memory for a while. */
#ifndef RESIDENT_MAX_KB
#define RESIDENT_MAX_KB 150000
#define SOURCES 300
#endif

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    int client;
};

#define WORKERS 2

/* While the compilers are stopped, no compile ends, so the queue stays full. The compile timeout
 * is long, so that it does not end compiles either. */
static const char *const settings[] = { "--queue-bytes-per-uid", "32MiB", "--workers", "2",
                                        "--compile-timeout",     "1d",    NULL };

SET_UP(set_up) { raw_serve(&f->daemon, settings, &f->client); }

FIXTURE(limits, set_up, NULL);

static bool all_are_idle(void *context)
{
    struct fixture *f = context;
    KILN_AUTO(json) struct json *status = raw_ask(f->client, MESSAGE_status, "{}");
    const struct json *workers = json_get(status, "workers");
    return json_get_u64(workers, "idle", 0) == WORKERS;
}

/* Runs a probe, after which kilnd replaces the compiler that ran it. Then stops all compilers,
 * so that later compiles stay in the queue. */
static void stop_compilers(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--probe", TARGET, NULL);
    assert_int_equal(f->result.status, 0);
    wait_until("all compilers to become idle", all_are_idle, f);
    daemon_process_signal_workers(&f->daemon, SIGSTOP);
}

static void release_compilers(struct fixture *f)
{
    daemon_process_signal_workers(&f->daemon, SIGCONT);
}

#define SOURCE_SIZE (7u << 20)

/* Receives a reply, and counts it if it is a refusal. Returns false if it is a pong. */
static bool receive_reply(int fd, unsigned *refused)
{
    static struct raw_frame frame;
    char text[512];
    assert_true(raw_receive(fd, &frame));
    raw_close_descriptors(&frame);
    if (frame.header.type == MESSAGE_pong)
        return false;
    if (raw_refusal(&frame, text) != KILN_OK) {
        assert_int_equal(raw_refusal(&frame, text), KILN_BUSY);
        assert_says(text, "queue_bytes_per_uid");
        (*refused)++;
    }
    return true;
}

static bool has_reply(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) == 1;
}

/* Returns the number of sources that kilnd refused. Reads the replies between the sources, because
 * kilnd closes a connection whose client leaves replies unread for half a minute. */
static unsigned send_large_sources(int fd)
{
    unsigned refused = 0;
    char *source = malloc(SOURCE_SIZE);
    assert_non_null(source);
    memset(source, '\n', SOURCE_SIZE);
    memcpy(source, PROGRAM, sizeof(PROGRAM) - 1);
    for (unsigned i = 0; i < (unsigned)SOURCES; i++) {
        char options[32];
        snprintf(options, sizeof(options), "-DN=%u", i);
        raw_send_source(fd, 100 + i, TARGET, options, bytes_of(source, SOURCE_SIZE));
        while (has_reply(fd))
            assert_true(receive_reply(fd, &refused));
    }
    free(source);
    return refused;
}

TEST_F(limits, queued_sources_are_limited_in_bytes)
{
    if (getenv("KILN_TEST_VALGRIND")) {
        SKIP("valgrind keeps what was freed, and copies too slowly to be read");
    }
    stop_compilers(f);
    unsigned refused = send_large_sources(f->client);
    BUFFER_AUTO struct buffer ping;
    buffer_init(&ping, 100);
    message_ping_write(&ping, &(struct message_ping){ .payload = bytes_of_text("done?") });
    raw_send_frame(f->client, MESSAGE_ping, 1, buffer_view(&ping));
    while (receive_reply(f->client, &refused)) {
    }
    assert_in_range(refused, (unsigned)SOURCES - 8, (unsigned)SOURCES - 1);
    long most = daemon_process_memory(&f->daemon, "VmHWM");
    if (most > RESIDENT_MAX_KB)
        fail_msg("kilnd had %ld kB in memory", most);
    release_compilers(f);
}

static void fill_with_requests(struct fixture *f)
{
    for (unsigned i = 0; i < LIMIT_REQUESTS_IN_FLIGHT; i++)
        raw_send_source(f->client, 1 + i, TARGET, "", bytes_of_text(PROGRAM));
}

TEST_F(limits, requests_beyond_the_limit_are_refused)
{
    stop_compilers(f);
    fill_with_requests(f);
    raw_send_source(f->client, 5000, TARGET, "", bytes_of_text(PROGRAM));
    raw_expect_error(f->client, KILN_BUSY, "1024 unanswered");
    release_compilers(f);
}

TEST_F(limits, a_request_can_be_cancelled_at_the_limit)
{
    static struct raw_frame frame;
    char text[512];
    stop_compilers(f);
    fill_with_requests(f);
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    message_cancel_write(&b, &(struct message_cancel){ .cancelled_id = 7 });

    raw_send_frame(f->client, MESSAGE_cancel, 6000, buffer_view(&b));
    assert_true(raw_receive(f->client, &frame));

    assert_int_equal(frame.header.request_id, 7);
    assert_int_equal(raw_refusal(&frame, text), KILN_CANCELLED);
    raw_expect_pong(f->client);
    release_compilers(f);
}

#define TRIES_MAX 64

static void want_made_up_target(struct fixture *f, unsigned number)
{
    char target[16];
    snprintf(target, sizeof(target), "gfxq%u", 1000 + number);
    raw_send_source(f->client, 100 + number, target, "", bytes_of_text(PROGRAM));
}

static unsigned compiles_that_wait(struct fixture *f)
{
    KILN_AUTO(json) struct json *stats = raw_ask(f->client, MESSAGE_stats, "{}");
    return (unsigned)json_get_u64(stats, "queued", 0);
}

static bool none_waits(void *context) { return compiles_that_wait(context) == 0; }

TEST_F(limits, probes_of_unknown_targets_are_limited_and_end_with_their_client)
{
    static struct raw_frame frame;
    char text[512];
    stop_compilers(f);
    for (unsigned i = 0; i < TRIES_MAX; i++)
        want_made_up_target(f, i);
    raw_expect_pong(f->client);
    want_made_up_target(f, TRIES_MAX);
    assert_true(raw_receive(f->client, &frame));
    assert_int_equal(raw_refusal(&frame, text), KILN_UNAVAILABLE);
    assert_says(text, "64 probes");
    assert_says(text, "gfxq1064");
    assert_true(compiles_that_wait(f) > 0);

    close(f->client);
    f->client = raw_greeted(&f->daemon);
    if (!holds_in_time(none_waits, f))
        fail_msg("%u compiles wait for nobody", compiles_that_wait(f));
    release_compilers(f);
}

TEST_F(limits, invalid_members_are_refused_by_name)
{
    static const struct {
        enum message_type type;
        const char *body, *named;
    } bad[] = {
        { MESSAGE_clear, "{\"older_than_s\": \"30d\"}", "older_than_s" },
        { MESSAGE_clear, "{\"older_than_s\": -5}", "older_than_s" },
        { MESSAGE_clear, "{\"all\": true, \"dry_run\": \"yes\"}", "dry_run" },
        { MESSAGE_clear, "{\"all\": true, \"dryrun\": true}", "dryrun" },
        { MESSAGE_clear, "{\"all\": 1}", "all" },
        { MESSAGE_clear, "{\"target\": 90}", "target" },
        { MESSAGE_clear, "[]", "not a JSON object" },
        { MESSAGE_kernel_list, "{\"count\": \"many\"}", "count" },
        { MESSAGE_toolchains, "{\"probe\": \"gfx90a\"}", "probe" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        raw_send_frame(f->client, bad[i].type, 3, bytes_of_text(bad[i].body));
        raw_expect_error(f->client, KILN_INVALID, bad[i].named);
    }
    raw_expect_pong(f->client);
}
