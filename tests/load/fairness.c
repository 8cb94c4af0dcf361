/* SPDX-License-Identifier: MIT */
/*
 * One user's queued compiles do not delay another's single one by more than one of them.
 *
 * Usage: test_load_fairness [COMPILES]   (default: 10000; root only: it needs two users)
 *
 * Nothing is timed.  All compilers are stopped (SIGSTOP), so that the first user's compiles wait;
 * then the second user asks for one, and one compiler may go on.  As each source is the last of its
 * compiler, fresh ones follow it one by one in its place; the other places stay stopped.  Those of
 * the first user's that may go first end as compiles do; the first that is behind them would keep
 * the place for ever.
 */
#include "tests/faults/made_kernel.h"
#include "tests/load/peer.h"
#include "tests/support/metrics_page.h"
#include "tests/support/raw_client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_USER 54321
#define SECOND_USER 54322
#define BATCH_MAX 4000u
#define WORKERS_MAX 8
#define SINGLE 90000000u /* the second user's kernel */

static unsigned compiles = 10000;

struct fixture {
    struct daemon_process daemon;
    unsigned workers;
    unsigned last; /* of the first user's kernels */
    int watcher, first, second;
    pid_t stopped[WORKERS_MAX];
};

static int setup_with(void **state, unsigned workers)
{
    static struct fixture f;
    static char count[16];
    f = (struct fixture){ .workers = workers, .last = compiles - 1 };
    if (geteuid() != 0)
        return 0;
    snprintf(count, sizeof(count), "%u", workers);
    const char *arguments[] = { "--compiler",  KILN_BIN "/../tests/fault_compiler",
                                "--workers",   count,
                                "--log-level", "error",
                                NULL };
    daemon_process_init(&f.daemon);
    memcpy(f.daemon.arguments, arguments, sizeof(arguments));
    daemon_process_start(&f.daemon);
    assert_int_equal(chmod(f.daemon.directory, 0711) | chmod(f.daemon.socket, 0666), 0);
    f.watcher = raw_greeted(&f.daemon);
    f.first = raw_greeted_as(&f.daemon, FIRST_USER);
    f.second = raw_greeted_as(&f.daemon, SECOND_USER);
    *state = &f;
    return 0;
}

static int setup_one(void **state) { return setup_with(state, 1); }
static int setup_four(void **state) { return setup_with(state, 4); }

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (!f)
        return 0;
    close(f->first);
    close(f->second);
    close(f->watcher);
    daemon_process_kill(&f->daemon); /* with compilers that do not move it would wait for them */
    for (unsigned i = 0; i < f->workers && f->stopped[i] > 0; i++)
        kill(-f->stopped[i], SIGKILL);
    daemon_process_remove(&f->daemon);
    *state = NULL;
    return 0;
}

FIXTURE(four, setup_four, teardown);

FIXTURE(one, setup_one, teardown);

/* ---- compilers ---- */

static bool all_are_idle(void *context)
{
    static struct metrics_page page;
    struct fixture *f = context;
    metrics_page_read(f->watcher, &page);
    return metrics_page_count(&page, "kiln_workers{state=\"idle\"}") == f->workers;
}

/* From here on what is asked for waits. */
static void stop_compilers(struct fixture *f)
{
    char path[64];
    int child = 0;
    unsigned count = 0;
    wait_until("all compilers to become idle", all_are_idle, f);
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)f->daemon.pid,
             (int)f->daemon.pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (count < f->workers && fscanf(file, "%d", &child) == 1)
        f->stopped[count++] = child;
    fclose(file);
    assert_int_equal(count, f->workers);
    daemon_process_signal_workers(&f->daemon, SIGSTOP);
}

/* ---- asking ---- */

/* Those that compilers have, one by its turn, and the last one, which somebody else may want. */
static bool may_end(const struct fixture *f, unsigned number)
{
    return number <= f->workers || number == f->last;
}

/* |count| kernels from number |from| on, in one batch; answers are not read. */
static void ask_many(const struct fixture *f, unsigned from, unsigned count)
{
    BUFFER_AUTO struct buffer items, body;
    buffer_init(&items, LIMIT_FRAME_BODY);
    buffer_init(&body, LIMIT_FRAME_BODY);
    for (unsigned i = 0; i < count; i++) {
        BUFFER_AUTO struct buffer one;
        char source[64];
        buffer_init(&one, 1000);
        (may_end(f, from + i) ? made_source : made_endless_source)(from + i, source);
        peer_write_fetch_of(&one, source, 0);
        message_batch_item_write(
            &items, &(struct message_batch_item){ .kind = 1, .request = buffer_view(&one) });
    }
    message_batch_write(&body,
                        &(struct message_batch){ .count = count, .items = buffer_view(&items) });
    assert_false(items.failed || body.failed);
    raw_send_frame(f->first, MESSAGE_batch, 1 + from, buffer_view(&body));
}

static void ask_one(int fd, unsigned number)
{
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 1000);
    peer_write_fetch(&body, number, 0);
    raw_send_frame(fd, MESSAGE_fetch_source, 1, buffer_view(&body));
}

struct wish {
    struct fixture *f;
    const char *series;
    uint64_t least;
};

static bool has_come(void *context)
{
    static struct metrics_page page;
    struct wish *w = context;
    metrics_page_read(w->f->watcher, &page);
    return metrics_page_count(&page, w->series) >= w->least;
}

static void expect(struct fixture *f, const char *series, uint64_t least)
{
    struct wish wish = { f, series, least };
    if (!holds_in_time(has_come, &wish))
        fail_msg("'%s' does not become %llu", series, (unsigned long long)least);
}

/* Those of one batch are looked up side by side and may queue in another order: so those that end
 * are there before the others. */
static void fill_queue(struct fixture *f)
{
    ask_many(f, 0, f->workers + 1);
    expect(f, "kiln_inflight_compiles", f->workers);
    expect(f, "kiln_queued_compiles", 1);
    for (unsigned from = f->workers + 1; from < compiles; from += BATCH_MAX) {
        unsigned left = compiles - from;
        ask_many(f, from, left < BATCH_MAX ? left : BATCH_MAX);
    }
    expect(f, "kiln_queued_compiles", compiles - f->workers);
    expect(f, "kiln_inflight_compiles", f->workers);
}

/* ---- the tests ---- */

static void take_answer(struct fixture *f, unsigned number)
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

/* It is answered, though only two of the first user's compiles can end before it: the one that runs
 * already, and one by its turn. */
static void expect_served(struct fixture *f, unsigned number)
{
    static struct metrics_page page;
    stop_compilers(f);
    fill_queue(f);
    ask_one(f->second, number);
    if (number == SINGLE)
        expect(f, "kiln_queued_compiles", compiles - f->workers + 1);
    else
        expect(f, "kiln_coalesced_requests_total", 1);
    kill(-f->stopped[0], SIGCONT);
    take_answer(f, number);
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
    print_message("skipped: two users are needed, and only root can be both\n");
    skip();
}

TEST(one, a_single_compile_waits_for_one_of_anothers_many)
{
    skip_unless_root();
    expect_served(*state, SINGLE);
}
TEST_ALSO(four, a_single_compile_waits_for_one_of_anothers_many)

/* The last one of the first user's: who asks for it too gets it in the turn of his own. */
TEST(one, a_user_who_only_wants_the_last_of_many_gets_it_early)
{
    skip_unless_root();
    struct fixture *f = *state;
    expect_served(f, f->last);
}

static void ask_for_untried(int fd, const char *source)
{
    raw_send_source(fd, SINGLE, REFUSED_TARGET, "", bytes_of_text(source));
}

/* The first user asks for a target that was not tried before, after all else: the probe is the last
 * of his.  Who asks for that target too has it in the turn of his own; here it says no. */
TEST(one, a_user_who_only_wants_an_untried_target_gets_its_probe_early)
{
    static struct raw_frame frame;
    char text[512];
    skip_unless_root();
    struct fixture *f = *state;
    stop_compilers(f);
    fill_queue(f);
    ask_for_untried(f->first, "a");
    expect(f, "kiln_queued_compiles", compiles - f->workers + 1);
    ask_for_untried(f->second, "b");
    raw_expect_pong(f->second); /* it was read */
    kill(-f->stopped[0], SIGCONT);
    raw_receive_last(f->second, &frame);
    assert_int_equal(raw_refusal(&frame, text), KILN_UNSUPPORTED);
    assert_says(text, REFUSING_TOOLCHAIN ": nothing is made for " REFUSED_TARGET);
}

int main(int argc, char **argv)
{
    unsigned long given = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (given >= 100 && given <= 20000)
        compiles = (unsigned)given;
    return test_run(NULL);
}
