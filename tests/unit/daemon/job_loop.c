/* SPDX-License-Identifier: MIT */
/* The loop in a job's process, which has no libuv: what comes when, and what a job never sees. */
#include "daemon/loop/timer.h"
#include "daemon/loop/uv_handle.h"
#include "daemon/loop/watch.h"

#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct ear { /* one end of a socket pair */
    struct loop_watch watch;
    int ends[2];
    unsigned heard, events;
    struct ear *closes; /* another, once it hears something */
    bool stops;         /* itself */
};

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct kiln_err err;
    struct ear a, b;
    struct loop_timer timer, other;
    unsigned fired;
};

static void on_ready(struct loop_watch *watch, unsigned events)
{
    struct ear *ear = LOOP_OWNER_OF(struct ear, watch, watch);
    ear->heard++;
    ear->events = events;
    if (ear->closes)
        loop_watch_close(&ear->closes->watch);
    if (ear->stops)
        loop_watch_want(watch, 0);
}

static void open_ear(struct fixture *f, struct ear *ear)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ear->ends), 0);
    must(loop_watch_init(f->loop, &ear->watch, &f->owner, ear->ends[0], on_ready, &f->err), f->err);
    loop_watch_want(&ear->watch, WATCH_READ);
}

static void close_ear(struct ear *ear)
{
    loop_watch_close(&ear->watch);
    for (int i = 0; i < 2; i++) {
        if (ear->ends[i] >= 0)
            close(ear->ends[i]);
    }
}

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .err = KILN_ERR_INIT };
    must(loop_create(&f.loop, &f.err), f.err);
    open_ear(&f, &f.a);
    open_ear(&f, &f.b);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close_ear(&f->a);
    close_ear(&f->b);
    loop_timer_close(&f->timer);
    loop_timer_close(&f->other);
    loop_run(f->loop);
    assert_int_equal(f->owner.open, 0);
    loop_destroy(f->loop);
    return 0;
}

FIXTURE(loop, set_up, tear_down);

static void say(const struct ear *ear) { assert_int_equal(write(ear->ends[1], ".", 1), 1); }

TEST(loop, what_stays_readable_is_told_every_turn_until_nobody_wants_it)
{
    struct fixture *f = *state;
    say(&f->a);
    loop_turn(f->loop);
    loop_turn(f->loop);
    assert_int_equal(f->a.heard, 2);
    assert_int_equal(f->a.events, WATCH_READ);
    f->a.stops = true;
    loop_turn(f->loop);
    say(&f->b);
    loop_turn(f->loop);
    assert_int_equal(f->a.heard, 3);
    assert_int_equal(f->b.heard, 1);
    loop_watch_want(&f->a.watch, WATCH_READ | WATCH_WRITE); /* as from the start */
    loop_turn(f->loop);
    assert_int_equal(f->a.events, WATCH_READ | WATCH_WRITE);
}

/* The kernel gives both at once. */
TEST(loop, one_that_another_closes_hears_no_more_though_it_was_due)
{
    struct fixture *f = *state;
    f->a.closes = &f->b;
    f->b.closes = &f->a;
    say(&f->a);
    say(&f->b);
    loop_turn(f->loop);
    assert_int_equal(f->a.heard + f->b.heard, 1);
}

TEST(loop, a_hang_up_is_told_as_what_is_waited_for)
{
    struct fixture *f = *state;
    loop_watch_want(&f->b.watch, 0); /* who waits for nothing is told nothing */
    for (int i = 0; i < 2; i++) {
        struct ear *ear = i ? &f->b : &f->a;
        close(ear->ends[1]);
        ear->ends[1] = -1;
    }
    loop_turn(f->loop);
    assert_int_equal(f->a.events, WATCH_READ);
    loop_turn(f->loop);
    assert_int_equal(f->b.heard, 0);
    loop_watch_want(&f->b.watch, WATCH_READ);
    loop_turn(f->loop);
    assert_int_equal(f->b.heard, 1);
}

TEST(loop, a_pipe_that_nobody_reads_is_broken)
{
    struct fixture *f = *state;
    struct ear pipe_end = { .ends = { -1, -1 } };
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    must(loop_watch_init(f->loop, &pipe_end.watch, &f->owner, ends[1], on_ready, &f->err), f->err);
    assert_true(fcntl(ends[1], F_GETFL) & O_NONBLOCK);
    loop_watch_want(&pipe_end.watch, WATCH_WRITE);
    loop_turn(f->loop);
    assert_int_equal(pipe_end.events, WATCH_BROKEN);
    say(&f->a);
    loop_turn(f->loop);
    assert_int_equal(pipe_end.heard, 1);
    loop_watch_close(&pipe_end.watch);
    loop_turn(f->loop);
    close(ends[1]);
}

TEST(loop, what_cannot_be_watched_is_told_and_leaves_nothing_open)
{
    struct fixture *f = *state;
    struct loop_watch watch = { .events = 0 };
    unsigned handles = f->owner.open;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    assert_int_not_equal(loop_watch_init(f->loop, &watch, &f->owner, fd, on_ready, &f->err), 0);
    assert_int_equal(close(fd), 0);
    assert_int_not_equal(loop_watch_init(f->loop, &watch, &f->owner, fd, on_ready, &f->err), 0);
    assert_int_not_equal(
        loop_watch_init(f->loop, &watch, &f->owner, f->a.ends[0], on_ready, &f->err), 0);
    assert_int_equal(f->owner.open, handles);
}

/* ---- timers ---- */

static void fire_again(struct loop_timer *timer)
{
    struct fixture *f = LOOP_OWNER_OF(struct fixture, timer, timer);
    f->fired++;
    loop_timer_start(timer, 0, 0);
}

static void stop_the_first(struct loop_timer *timer)
{
    struct fixture *f = LOOP_OWNER_OF(struct fixture, other, timer);
    f->fired++;
    loop_timer_stop(&f->timer);
}

TEST(loop, after_zero_it_is_the_next_turn_and_events_come_all_the_same)
{
    struct fixture *f = *state;
    loop_timer_init(f->loop, &f->timer, &f->owner, fire_again);
    loop_timer_start(&f->timer, 0, 0);
    assert_int_equal(f->fired, 0);
    say(&f->a);
    for (unsigned turn = 1; turn <= 3; turn++) {
        loop_turn(f->loop);
        assert_int_equal(f->fired, turn);
        assert_int_equal(f->a.heard, turn);
    }
}

TEST(loop, one_of_the_same_turn_may_be_stopped_and_started_anew)
{
    struct fixture *f = *state;
    loop_timer_init(f->loop, &f->other, &f->owner, stop_the_first);
    loop_timer_init(f->loop, &f->timer, &f->owner, fire_again);
    loop_timer_start(&f->timer, 0, 0);
    loop_timer_start(&f->other, 0, 0);
    loop_timer_start(&f->timer, 0, 0); /* behind it now */
    assert_true(loop_timer_is_running(&f->timer));
    loop_turn(f->loop);
    assert_int_equal(f->fired, 1);
    assert_false(loop_timer_is_running(&f->timer));
}

TEST(loop, libuvs_own_timers_are_for_the_next_turn_alone)
{
    struct fixture *f = *state;
    uv_timer_t timer;
    uv_timer_init(&f->loop->uv, &timer);
    assert_int_equal(uv_timer_start(&timer, (uv_timer_cb)abort, 1, 0), UV_ENOTSUP);
    assert_int_equal(uv_loop_close(&f->loop->uv), UV_EBUSY);
    uv_close((uv_handle_t *)&timer, NULL);
    assert_int_equal(uv_timer_start(&timer, (uv_timer_cb)abort, 0, 0), UV_EINVAL);
    uv_run(&f->loop->uv, UV_RUN_NOWAIT);
}

/* ---- the process ---- */

static unsigned count_files(void)
{
    unsigned count = 0;
    DIR *files = opendir("/proc/self/fd");
    while (files && readdir(files))
        count++;
    if (files)
        closedir(files);
    return count;
}

TEST(loop, nothing_of_a_loop_stays_with_the_process_nor_is_made_in_a_child)
{
    struct fixture *f = *state;
    struct loop *loop = NULL;
    int status;
    unsigned files = count_files();
    must(loop_create(&loop, &f->err), f->err);
    loop_destroy(loop);
    assert_int_equal(count_files(), files);
    pid_t child = fork();
    if (child == 0)
        _exit(count_files() == files ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
