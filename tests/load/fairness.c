/* SPDX-License-Identifier: MIT */
/* Tests that many queued compiles of one user delay another user's single compile by at most one
 * compile.
 *
 * Usage: test_load_fairness [COMPILES]   (default: 10000; needs root, because it needs two users)
 *
 * The test does not measure time. It stops all compilers (SIGSTOP), so that the first user's
 * compiles stay in the queue. Then the second user requests one compile, and the test lets one
 * compiler continue. Some sources of the first user may be compiled before the source of the
 * second user; their compiles end normally. All other compiles of the first user never end, so a
 * wrong order makes the test hang. A compiler exits after each source, and a new compiler (not
 * stopped) takes its place. */
#include "tests/faults/made_kernel.h"
#include "tests/load/peer.h"
#include "tests/support/children.h"
#include "tests/support/metrics_page.h"
#include "tests/support/raw_client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_USER 54321
#define SECOND_USER 54322
#define BATCH_MAX 4000u
#define WORKERS_MAX 8
#define SINGLE_KERNEL 90000000u

static unsigned compiles = 10000;

struct fixture {
    struct daemon_process daemon;
    unsigned workers;
    unsigned last;
    int watcher, first, second;
    pid_t stopped[WORKERS_MAX];
};

static void open_with(struct fixture *f, unsigned workers)
{
    static char count[16];
    const char *const arguments[] = { LOAD_ARGUMENTS, "--workers", count, NULL };
    f->workers = workers;
    f->last = compiles - 1;
    if (geteuid() != 0)
        return;
    snprintf(count, sizeof(count), "%u", workers);
    raw_serve(&f->daemon, arguments, &f->watcher);
    admit_all_users(&f->daemon);
    f->first = raw_greeted_as(&f->daemon, FIRST_USER);
    f->second = raw_greeted_as(&f->daemon, SECOND_USER);
}

SET_UP(set_up_one) { open_with(f, 1); }
SET_UP(set_up_four) { open_with(f, 4); }

TEAR_DOWN(tear_down)
{
    if (!f->daemon.pid)
        return;
    close(f->first);
    close(f->second);
    /* kilnd would wait for the stopped compilers if it were stopped normally */
    daemon_process_kill(&f->daemon);
    for (unsigned i = 0; i < f->workers && f->stopped[i] > 0; i++)
        kill(-f->stopped[i], SIGKILL);
}

FIXTURE(four, set_up_four, tear_down);
FIXTURE(one, set_up_one, tear_down);

static bool workers_are_idle(void *context)
{
    static struct metrics_page page;
    struct fixture *f = context;
    metrics_page_read(f->watcher, &page);
    return metrics_page_count(&page, "kiln_workers{state=\"idle\"}") == f->workers;
}

static void stop_compilers(struct fixture *f)
{
    wait_until("all compilers to become idle", workers_are_idle, f);
    unsigned count = children_of(f->daemon.pid, f->stopped, f->workers);
    assert_int_equal(count, f->workers);
    daemon_process_signal_workers(&f->daemon, SIGSTOP);
}

/* Returns whether compile |number| of the first user ends normally. The compiles that end normally
 * are those that already run, the next in the queue, and the last one. In some tests, the second
 * user also requests the last one. */
static bool ends(const struct fixture *f, unsigned number)
{
    return number <= f->workers || number == f->last;
}

/* Requests the first user's compiles |from| to |from| + |count| - 1. Does not wait for the
 * answers. */
static void send_batch(const struct fixture *f, unsigned from, unsigned count)
{
    BUFFER_AUTO struct buffer items, body;
    buffer_init(&items, LIMIT_FRAME_BODY);
    buffer_init(&body, LIMIT_FRAME_BODY);
    for (unsigned i = 0; i < count; i++) {
        BUFFER_AUTO struct buffer one;
        char source[64];
        buffer_init(&one, 1000);
        (ends(f, from + i) ? made_source : made_endless_source)(from + i, source);
        peer_write_fetch_of(&one, source, 0);
        message_batch_item_write(
            &items, &(struct message_batch_item){ .kind = 1, .request = buffer_view(&one) });
    }
    message_batch_write(&body,
                        &(struct message_batch){ .count = count, .items = buffer_view(&items) });
    assert_false(items.failed || body.failed);
    raw_send_frame(f->first, MESSAGE_batch, 1 + from, buffer_view(&body));
}

static void send_fetch(int fd, unsigned number)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    peer_write_fetch(&body, number, 0);
    raw_send_frame(fd, MESSAGE_fetch_source, 1, buffer_view(&body));
}

struct metric_wait {
    struct fixture *fixture;
    const char *series;
    uint64_t minimum;
};

static bool metric_reached(void *context)
{
    static struct metrics_page page;
    struct metric_wait *w = context;
    metrics_page_read(w->fixture->watcher, &page);
    return metrics_page_count(&page, w->series) >= w->minimum;
}

static void expect_metric(struct fixture *f, const char *series, uint64_t minimum)
{
    struct metric_wait metric_wait = { f, series, minimum };
    if (!holds_in_time(metric_reached, &metric_wait))
        fail_msg("waited %d s for %s to reach %llu", WAIT_MAX_S, series,
                 (unsigned long long)minimum);
}

/* kilnd may queue the compiles of one batch in any order. So the compiles that must come first are
 * in their own batch, and the rest are sent when that batch is in the queue. */
static void fill_queue(struct fixture *f)
{
    send_batch(f, 0, f->workers + 1);
    expect_metric(f, "kiln_inflight_compiles", f->workers);
    expect_metric(f, "kiln_queued_compiles", 1);
    for (unsigned from = f->workers + 1; from < compiles; from += BATCH_MAX) {
        unsigned left = compiles - from;
        send_batch(f, from, left < BATCH_MAX ? left : BATCH_MAX);
    }
    expect_metric(f, "kiln_queued_compiles", compiles - f->workers);
    expect_metric(f, "kiln_inflight_compiles", f->workers);
}

static void expect_kernel(struct fixture *f, unsigned number)
{
    static struct raw_frame frame;
    uint8_t content[32u << 10];
    raw_receive_last(f->second, &frame);
    assert_int_equal(frame.header.type, MESSAGE_kernels);
    struct reader r = reader_of(bytes_of(frame.body, frame.header.body_size));
    struct message_kernels m = message_kernels_read(&r);
    struct reader list = reader_of(m.results);
    struct message_result o = message_result_read(&list);
    assert_int_equal(o.code, KILN_OK);
    assert_int_equal(frame.fd_count, 1);
    assert_true(o.size <= sizeof(content));
    assert_int_equal(pread(frame.fds[0], content, o.size, 0), (ssize_t)o.size);
    assert_true(content_hash(bytes_of(content, o.size)) == made_hash(number));
    raw_close_descriptors(&frame);
}

/* The compiler that continues may only run two compiles of the first user before the compile of the
 * second user: its current compile and the next one in the queue. */
static void expect_served(struct fixture *f, unsigned number)
{
    static struct metrics_page page;
    stop_compilers(f);
    fill_queue(f);
    send_fetch(f->second, number);
    if (number == SINGLE_KERNEL)
        expect_metric(f, "kiln_queued_compiles", compiles - f->workers + 1);
    else
        expect_metric(f, "kiln_coalesced_requests_total", 1);
    kill(-f->stopped[0], SIGCONT);
    expect_kernel(f, number);
    metrics_page_read(f->watcher, &page);
    print_message(
        "%u compilers, %u compiles of one user: the other's one came after %llu of them\n",
        f->workers, compiles,
        (unsigned long long)metrics_page_sum(&page, "kiln_compiles_total{") - 1);
}

static void skip_unless_root(void)
{
    if (geteuid() == 0)
        return;
    SKIP("two users are needed, and only root can be both");
}

TEST_F(one, a_single_compile_waits_for_one_of_anothers_many)
{
    skip_unless_root();
    expect_served(f, SINGLE_KERNEL);
}
TEST_ALSO(four, a_single_compile_waits_for_one_of_anothers_many)

TEST_F(one, a_user_who_only_wants_the_last_of_many_gets_it_early)
{
    skip_unless_root();
    expect_served(f, f->last);
}

static void request_untried_target(int fd, const char *source)
{
    raw_send_source(fd, SINGLE_KERNEL, REFUSED_TARGET, "", bytes_of_text(source));
}

/* A target that no one has used needs a probe, which is queued like a compile. The first user's
 * request for such a target comes after all compiles. The second user requests the same target, so
 * the probe must move forward in the queue. The compiler refuses the target. */
TEST_F(one, a_user_who_only_wants_an_untried_target_gets_its_probe_early)
{
    static struct raw_frame frame;
    char text[512];
    skip_unless_root();
    stop_compilers(f);
    fill_queue(f);
    request_untried_target(f->first, "a");
    expect_metric(f, "kiln_queued_compiles", compiles - f->workers + 1);
    request_untried_target(f->second, "b");
    raw_expect_pong(f->second); /* the pong shows that kilnd has read the request */
    kill(-f->stopped[0], SIGCONT);
    raw_receive_last(f->second, &frame);
    assert_int_equal(raw_refusal(&frame, text), KILN_UNSUPPORTED);
    assert_says(text, REFUSED_TARGET);
}

int main(int argc, char **argv)
{
    unsigned long given = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (given >= 100 && given <= 20000)
        compiles = (unsigned)given;
    return test_run(NULL);
}
