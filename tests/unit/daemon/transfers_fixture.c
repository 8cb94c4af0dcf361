/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/transfers_fixture.h"
#include "tests/support/entries.h"
#include "tests/unit/daemon/loop_fixture.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct immortal immortal;

WRAP(int, kill, pid_t pid, int number)
{
    if (!immortal.active)
        return __real_kill(pid, number);
    assert_true(immortal.count < sizeof(immortal.groups) / sizeof(immortal.groups[0]));
    immortal.groups[immortal.count++] = pid;
    return 0;
}

void let_them_die(void)
{
    immortal.active = false;
    while (immortal.count > 0)
        __real_kill(immortal.groups[--immortal.count], SIGKILL);
}

void make_immortal(void) { immortal.active = true; }

struct transfer_timers timers;

WRAP(void, loop_timer_start, struct loop_timer *timer, uint64_t ms, uint64_t repeat_ms)
{
    timers.silences += ms == SILENCE_MS;
    if (ms == SILENCE_MS)
        timers.silence = timer;
    if (ms == EXIT_MS)
        timers.exit = timer;
    __real_loop_timer_start(timer, ms == EXIT_MS && immortal.active ? 1 : ms, repeat_ms);
}

void expire(struct loop_timer *timer) { __real_loop_timer_start(timer, 0, 0); }

static void on_done(struct transfer_task *task) { ((struct transfer *)(void *)task)->ended++; }

static void on_progress(struct transfer_task *task, const struct transfer_progress *progress)
{
    struct transfer *t = (struct transfer *)(void *)task;
    t->reported++;
    snprintf(t->stage, sizeof(t->stage), "%s", progress->stage);
}

struct transfer transfer_of(const struct fixture *f, const char *url)
{
    return (struct transfer){
        .task = { .job = { .url = url,
                           .content_fd = -1,
                           .manifest_fd = -1,
                           .name = "gfx90a68.kdb",
                           .staging = f->staging,
                           .trusted_keys = "/nonexistent",
                           .size_limit = 1 << 20 },
                  .progress = on_progress,
                  .done = on_done },
    };
}

struct transfer transfer_of_user(const struct fixture *f, const char *url, uid_t uid)
{
    struct transfer t = transfer_of(f, url);
    t.task.uid = uid;
    return t;
}

void open_fixture(struct fixture *f)
{
    timers = (struct transfer_timers){ 0 };
    *f = (struct fixture){ .directory = test_directory(), .err = KILN_ERR_INIT };
    snprintf(f->staging, sizeof(f->staging), "%s/a/staging", f->directory);
    f->loop = open_ticking_loop(&f->tick, &f->owner);
    f->work_queues = open_work_queues(f->loop, READERS + 1);
    f->options = (struct transfers_options){
        .loop = f->loop,
        .work_queues = f->work_queues,
        .program = FAKE_TRANSFER,
        .timeout_ms = 60000,
        .silence_ms = SILENCE_MS,
        .exit_ms = EXIT_MS,
    };
}

void start_unit(struct fixture *f)
{
    launch_service_start(&f->unit, f->directory, KILN_LAUNCH, FAKE_TRANSFER);
    f->options.service = f->unit.path;
    f->options.program = "/nonexistent";
    f->options.user = (struct worker_user){ .uid = getuid(), .gid = getgid() };
}

void open_transfers(struct fixture *f)
{
    if (!f->transfers)
        must(transfers_create(&f->options, &f->transfers, &f->err), f->err);
}

static void on_closed(void *context) { ((struct fixture *)context)->closed = true; }

void close_transfers(struct fixture *f)
{
    loop_timer_close(&f->tick);
    transfers_close(f->transfers, on_closed, f);
    assert_false(f->closed);
    LOOP_TO_END(f->loop, "the transfers to close");
    assert_true(f->closed);
    f->transfers = NULL;
}

unsigned files_in_staging(const struct fixture *f)
{
    return access(f->staging, F_OK) == 0 ? entry_count(f->staging, "") : 0;
}

void close_fixture(struct fixture *f)
{
    let_them_die();
    if (f->transfers)
        close_transfers(f);
    loop_timer_close(&f->tick);
    LOOP_TO_END(f->loop, "the timer to close");
    assert_int_equal(files_in_staging(f), 0);
}

void wait_for_end(struct fixture *f, const struct transfer *t) { LOOP_UNTIL(f->loop, t->ended); }

void start_transfer(struct fixture *f, struct transfer *t)
{
    open_transfers(f);
    transfers_start(f->transfers, &t->task);
    LOOP_UNTIL(f->loop, t->reported);
}

struct transfer_result *run_silent(struct fixture *f, struct transfer *t)
{
    start_transfer(f, t);
    expire(timers.silence);
    wait_for_end(f, t);
    return &t->task.result;
}

struct transfer_result *run_among_others(struct fixture *f, struct transfer *t)
{
    open_transfers(f);
    transfers_start(f->transfers, &t->task);
    wait_for_end(f, t);
    return &t->task.result;
}

struct transfer_result *run_transfer(struct fixture *f, struct transfer *t)
{
    struct transfer_result *result = run_among_others(f, t);
    assert_int_equal(transfers_out(f->transfers), 0);
    return result;
}

void expect_failure(struct fixture *f, const char *url, enum kiln_code code, const char *says)
{
    struct transfer t = transfer_of(f, url);
    struct transfer_result *o = run_transfer(f, &t);
    assert_int_equal(o->err.code, code);
    assert_says(o->err.text, says);
    assert_string_equal(o->path, "");
    assert_int_equal(files_in_staging(f), 0);
}

void take_result(const struct transfer_result *o, const char *content)
{
    char got[64] = "";
    must(o->err.code, o->err);
    FILE *file = fopen(o->path, "r");
    assert_non_null(file);
    assert_non_null(fgets(got, sizeof(got), file));
    fclose(file);
    assert_string_equal(got, content);
    assert_int_equal(unlink(o->path), 0);
}

void expect_content(struct fixture *f, const char *url, const char *content)
{
    struct transfer t = transfer_of(f, url);
    take_result(run_transfer(f, &t), content);
}

void cancel_transfer(struct fixture *f, struct transfer *t)
{
    transfers_cancel(f->transfers, &t->task);
    wait_for_end(f, t);
}
