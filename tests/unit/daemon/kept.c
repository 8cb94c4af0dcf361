/* SPDX-License-Identifier: MIT */
/* Processes that a kiln-launch keeps, so that they are no children of ours. */
#include "daemon/workers/worker_process.h"

#include "tests/support/refused_call.h"
#include "tests/support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct worker_process process;
    struct loop_timer tick; /* so that a turn ends though nothing happens */
    struct worker_spawn spawn;
    struct keeper keeper;
    int ours; /* the other end of the process's descriptor 3 */
    unsigned exits;
    int status, signal;
    struct kiln_err err;
};

static void on_tick(struct loop_timer *timer) { (void)timer; }

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .keeper = KEEPER_OF(KILN_LAUNCH), .ours = -1, .err = KILN_ERR_INIT };
    f.spawn = (struct worker_spawn){
        .program = "/bin/sh", .service = "", .keeper = &f.keeper, .folder = -1
    };
    must(loop_create(&f.loop, &f.err), f.err);
    loop_timer_init(f.loop, &f.tick, &f.owner, on_tick);
    loop_timer_start(&f.tick, 1, 1);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    loop_timer_close(&f->tick);
    loop_run(f->loop);
    loop_destroy(f->loop);
    keeper_close(&f->keeper);
    if (f->ours >= 0)
        close(f->ours);
    return 0;
}

FIXTURE(kept, set_up, tear_down);

static void on_exited(struct worker_process *process, int status, int signal)
{
    struct fixture *f = LOOP_OWNER_OF(struct fixture, process, process);
    f->exits++;
    f->status = status;
    f->signal = signal;
}

static enum kiln_code start(struct fixture *f, const char *script)
{
    const char *const arguments[] = { "sh", "-c", script, NULL };
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->ours = pair[0];
    f->spawn.arguments = arguments;
    f->spawn.fd_3 = pair[1];
    enum kiln_code rc = worker_process_start(f->loop, &f->process, &f->owner, &f->spawn, &f->err);
    close(pair[1]);
    f->process.exited = on_exited;
    return rc;
}

static void wait_for_end(struct fixture *f)
{
    while (!f->exits)
        loop_turn(f->loop);
    worker_process_close(&f->process);
}

/* One packet from the process; "" when its end is closed. */
static const char *hear(struct fixture *f)
{
    static char said[256];
    ssize_t got = recv(f->ours, said, sizeof(said) - 1, 0);
    assert_true(got >= 0);
    said[got] = '\0';
    return said;
}

static void expect_no_child(void)
{
    assert_int_equal(waitpid(-1, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
}

TEST(kept, its_end_is_told_and_no_wait_sees_it)
{
    struct fixture *f = *state;
    must(start(f, "printf hello >&3; exit 7"), f->err);
    expect_no_child();
    wait_for_end(f);
    assert_string_equal(hear(f), "hello");
    assert_int_equal(f->status, 7);
    assert_int_equal(f->signal, 0);
    assert_int_equal(f->process.uid, getuid());
    expect_no_child();
}

TEST(kept, the_signal_that_ended_it_is_told)
{
    struct fixture *f = *state;
    must(start(f, "kill -ABRT $$"), f->err);
    wait_for_end(f);
    assert_int_equal(f->signal, SIGABRT);
}

TEST(kept, a_kill_ends_it_with_what_it_started)
{
    struct fixture *f = *state;
    must(start(f, "sleep 1000 & printf up >&3; wait"), f->err);
    assert_string_equal(hear(f), "up");
    worker_process_kill(&f->process);
    wait_for_end(f);
    assert_int_equal(f->signal, SIGKILL);
    assert_string_equal(hear(f), "");
}

TEST(kept, what_it_leaves_behind_ends_with_it)
{
    struct fixture *f = *state;
    must(start(f, "setsid sleep 1000 & printf up >&3"), f->err);
    assert_string_equal(hear(f), "up");
    wait_for_end(f);
    assert_string_equal(hear(f), "");
    expect_no_child();
}

TEST(kept, it_ends_when_it_is_let_go_of)
{
    struct fixture *f = *state;
    must(start(f, "printf up >&3; sleep 1000"), f->err);
    assert_string_equal(hear(f), "up");
    worker_process_close(&f->process);
    assert_string_equal(hear(f), "");
    assert_int_equal(f->exits, 0);
}

TEST(kept, it_ends_with_what_keeps_it)
{
    struct fixture *f = *state;
    must(start(f, "printf $PPID >&3; exec sleep 1000"), f->err);
    assert_int_equal(kill((pid_t)atoi(hear(f)), SIGKILL), 0);
    wait_for_end(f);
    assert_int_equal(f->status, WORKER_PROCESS_LOST);
    assert_string_equal(hear(f), "");
}

/* In a process of its own, whose child has the other end of what leads to kiln-launch. */
static int want_it_and_go(struct fixture *f, int waits)
{
    char word;
    if (worker_process_start(f->loop, &f->process, &f->owner, &f->spawn, &f->err))
        return 1;
    if (fork() == 0) {
        close(f->spawn.fd_3);
        _exit(read(waits, &word, 1) == 1);
    }
    return strcmp(hear(f), "up") == 0 ? 0 : 2;
}

TEST(kept, it_ends_with_who_wanted_it_though_a_child_of_that_lives_on)
{
    struct fixture *f = *state;
    const char *const arguments[] = { "sh", "-c", "printf up >&3; exec sleep 1000", NULL };
    int pair[2], line[2], status;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe(line), 0);
    f->ours = pair[0];
    f->spawn.arguments = arguments;
    f->spawn.fd_3 = pair[1];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(line[1]);
        _exit(want_it_and_go(f, line[0]));
    }
    close(pair[1]);
    close(line[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(hear(f), ""); /* of nobody any more, and not by our hand */
    close(line[1]);
}

TEST(kept, a_keeper_that_is_not_there_is_named)
{
    struct fixture *f = *state;
    f->keeper.program = "/nonexistent/kiln-launch";
    assert_int_not_equal(start(f, "exit 0"), KILN_OK);
    assert_says(f->err.text, "cannot run '/nonexistent/kiln-launch'");
    expect_no_child();
}

int main(void)
{
    static const int refusals[] = { ENOSYS, EPERM };
    int failed = test_run(NULL);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (!refuse_call(SYS_pidfd_open, refusals[i]))
                _exit(1);
            print_message("without pidfd_open (%s):\n", strerror(refusals[i]));
            _exit(test_run(NULL));
        }
        int status;
        failed += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    return failed;
}
