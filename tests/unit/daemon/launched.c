/* SPDX-License-Identifier: MIT */
/* Processes that a unit starts: kiln-launch, what passes between it and kilnd, and kilnd's side. */
#include "daemon/workers/launch.h"
#include "daemon/workers/worker_process.h"

#include "common/fs.h"
#include "tests/support/child.h"
#include "tests/support/launch_service.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    char directory[64];
    struct launch_service service;
    struct loop *loop;
    struct loop_owner owner;
    struct worker_process process;
    struct loop_timer tick; /* so that a turn ends though nothing happens */
    struct worker_spawn spawn;
    int ours; /* the other end of the process's descriptor 3 */
    unsigned exits;
    int status, signal;
    struct kiln_err err;
};

static void on_tick(struct loop_timer *timer) { (void)timer; }

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .directory = "/tmp/kiln_launched_XXXXXX",
                          .ours = -1,
                          .err = KILN_ERR_INIT };
    assert_non_null(mkdtemp(f.directory));
    assert_int_equal(loop_create(&f.loop, &f.err), KILN_OK);
    loop_timer_init(f.loop, &f.tick, &f.owner, on_tick);
    loop_timer_start(&f.tick, 1, 1);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    loop_timer_close(&f->tick);
    LOOP_CLOSE(f->loop);
    fd_auto(&f->ours);
    launch_service_stop(&f->service);
    assert_int_equal(rmdir(f->directory), 0);
    return 0;
}

FIXTURE(launched, set_up, tear_down);

static void on_exited(struct worker_process *process, int status, int signal)
{
    struct fixture *f = LOOP_OWNER_OF(struct fixture, process, process);
    f->exits++;
    f->status = status;
    f->signal = signal;
}

/* Runs |script| in a shell that a unit starts; its descriptor 3 leads to f->ours. */
static enum kiln_code start(struct fixture *f, const char *script)
{
    const char *const arguments[] = { "sh", "-c", script, NULL };
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->ours = pair[0];
    f->spawn.arguments = arguments;
    f->spawn.fd_3 = pair[1];
    f->spawn.service = f->service.path;
    if (f->spawn.directory == 0)
        f->spawn.directory = -1;
    enum kiln_code rc = worker_process_start(f->loop, &f->process, &f->owner, &f->spawn, &f->err);
    close(pair[1]);
    f->process.exited = on_exited;
    return rc;
}

static void launch(struct fixture *f, const char *script)
{
    launch_service_start(&f->service, f->directory, KILN_LAUNCH, "/bin/sh");
    must(start(f, script), f->err);
}

static void wait_for_end(struct fixture *f)
{
    LOOP_UNTIL(f->loop, f->exits);
    worker_process_close(&f->process);
}

/* One packet from the process; "" when its end is closed. */
static const char *hear(struct fixture *f)
{
    static char said[256];
    ssize_t got;
    IN_TIME(got = recv(f->ours, said, sizeof(said) - 1, 0));
    assert_true(got >= 0);
    said[got] = '\0';
    return said;
}

TEST(launched, a_launched_process_has_its_descriptor_and_its_end_is_reported)
{
    struct fixture *f = *state;
    launch(f, "printf hello >&3; exit 7");

    wait_for_end(f);

    assert_string_equal(hear(f), "hello");
    assert_int_equal(f->status, 7);
    assert_int_equal(f->signal, 0);
    assert_int_equal(f->process.uid, getuid());
    assert_int_equal(f->exits, 1);
}

TEST(launched, the_signal_that_ended_a_worker_is_reported)
{
    struct fixture *f = *state;
    launch(f, "kill -ABRT $$");
    wait_for_end(f);
    assert_int_equal(f->signal, SIGABRT);
}

TEST(launched, a_launched_worker_starts_in_the_directory_it_was_given)
{
    struct fixture *f = *state;
    f->spawn.directory = open(f->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    launch(f, "pwd -P >&3");
    close(f->spawn.directory);

    wait_for_end(f);

    assert_memory_equal(hear(f), f->directory, strlen(f->directory));
}

TEST(launched, a_launched_worker_has_no_socket_activation_variables)
{
    struct fixture *f = *state;
    launch(f, "printf \"${LISTEN_FDS-no}${LISTEN_PID-ne}\" >&3");
    wait_for_end(f);
    assert_string_equal(hear(f), "none");
}

/* The packet's end is closed in every process that had it once all are gone. */
TEST(launched, a_kill_ends_a_worker_and_its_children)
{
    struct fixture *f = *state;
    launch(f, "sleep 1000 & printf up >&3; wait");
    assert_string_equal(hear(f), "up");

    worker_process_kill(&f->process);
    wait_for_end(f);

    assert_int_equal(f->signal, SIGKILL);
    assert_string_equal(hear(f), "");
}

TEST(launched, a_launched_worker_ends_when_its_requester_has_gone)
{
    struct fixture *f = *state;
    launch(f, "printf up >&3; sleep 1000");
    assert_string_equal(hear(f), "up");

    worker_process_close(&f->process);

    assert_string_equal(hear(f), "");
    assert_int_equal(f->exits, 0);
}

TEST(launched, a_missing_service_is_reported_with_advice)
{
    struct fixture *f = *state;
    snprintf(f->service.path, sizeof(f->service.path), "%s/none", f->directory);

    assert_int_equal(start(f, ""), KILN_UNAVAILABLE);

    assert_says(f->err.text, f->service.path);
    assert_says(f->err.text, "such file");
    assert_says(f->err.text, "kiln-compiler.socket");
    assert_int_equal(f->owner.open, 1); /* the tick's */
}

TEST(launched, too_many_arguments_of_a_launch_are_refused)
{
    struct fixture *f = *state;
    char script[LAUNCH_PACKET_MAX + 1];
    memset(script, 'x', sizeof(script) - 1);
    script[sizeof(script) - 1] = '\0';
    launch_service_start(&f->service, f->directory, KILN_LAUNCH, "/bin/sh");

    assert_int_equal(start(f, script), KILN_INVALID);

    assert_says(f->err.text, "too long");
}

TEST(launched, a_unit_that_fails_to_start_is_a_process_that_is_lost)
{
    struct fixture *f = *state;
    launch_service_start(&f->service, f->directory, "/bin/true", NULL);
    must(start(f, ""), f->err);

    wait_for_end(f);

    assert_int_equal(f->status, WORKER_PROCESS_LOST);
}

TEST(launched, a_program_that_cannot_be_run_is_an_exit_status)
{
    struct fixture *f = *state;
    launch_service_start(&f->service, f->directory, KILN_LAUNCH, "/nonexistent");
    must(start(f, ""), f->err);
    wait_for_end(f);
    assert_int_equal(f->status, 127);
}

TEST(launched, a_service_that_does_not_answer_a_kill_is_given_up)
{
    struct fixture *f = *state;
    f->spawn.lost_ms = 20;
    launch_service_start(&f->service, f->directory, "/bin/sleep", "1"); /* it stays deaf */
    must(start(f, ""), f->err);

    worker_process_kill(&f->process);
    wait_for_end(f);

    assert_int_equal(f->status, WORKER_PROCESS_LOST);
}

/* ---- kiln-launch alone ---- */

static void send_raw(struct fixture *f, const void *packet, size_t size, const char *end_of_launch)
{
    int control = -1;
    char byte;
    launch_service_start(&f->service, f->directory, KILN_LAUNCH, "/bin/sh");
    must(launch_connect(f->service.path, &control, &f->err), f->err);
    if (size)
        assert_int_equal(send(control, packet, size, 0), size);
    else
        shutdown(control, SHUT_WR);
    ssize_t got;
    IN_TIME(got = recv(control, &byte, 1, 0));
    if (got > 0)
        fail_msg("%s was answered", end_of_launch);
    close(control);
}

TEST(launched, a_packet_without_a_descriptor_starts_nothing)
{
    send_raw(*state, "sh", 2, "a packet without a descriptor");
}

TEST(launched, a_client_that_leaves_before_asking_starts_nothing)
{
    send_raw(*state, NULL, 0, "nobody");
}

static int run_by_hand(const char *argument)
{
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nothing, STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
        unsetenv("LISTEN_FDS");
        execl(KILN_LAUNCH, "kiln-launch", argument, NULL);
        _exit(99);
    }
    return WEXITSTATUS(await_child(pid));
}

TEST(plain, by_hand_it_says_that_it_is_of_no_use)
{
    assert_int_equal(run_by_hand(NULL), 2);
    assert_int_equal(run_by_hand("sh"), 2);
    assert_int_equal(run_by_hand("/bin/sh"), 2); /* no connection */
    assert_int_equal(run_by_hand("--help"), 0);
    assert_int_equal(run_by_hand("--version"), 0);
}
