/* SPDX-License-Identifier: MIT */
#include "daemon/programs/launch.h"
#include "daemon/workers/worker_process.h"

#include "common/base/fs.h"
#include "tests/support/child.h"
#include "tests/support/children.h"
#include "tests/support/launch_service.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

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
    const char *directory;
    struct launch_service service;
    struct loop *loop;
    struct loop_owner owner;
    struct worker_process process;
    struct loop_timer tick;
    struct worker_spawn spawn;
    int far_end; /* the test's end of the socket that the process has as descriptor 3 */
    unsigned exits;
    int status, signal;
    struct kiln_err err;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_empty_directory(),
                           .far_end = -1,
                           .err = KILN_ERR_INIT };
    f->loop = open_ticking_loop(&f->tick, &f->owner);
}

TEAR_DOWN(tear_down) { fd_auto(&f->far_end); }

FIXTURE(launched, set_up, tear_down);

static void on_exited(struct worker_process *process, int status, int signal)
{
    struct fixture *f = LOOP_OWNER_OF(struct fixture, process, process);
    f->exits++;
    f->status = status;
    f->signal = signal;
}

/* Starts a program through the launch service. Connects its descriptor 3 to f->far_end. */
static enum kiln_code start_program(struct fixture *f, const char *const *arguments)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->far_end = pair[0];
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

static enum kiln_code start_shell(struct fixture *f, const char *script)
{
    const char *const arguments[] = { "sh", "-c", script, NULL };
    return start_program(f, arguments);
}

/* The service's unit runs |launcher| with |program|. */
static void launch_by(struct fixture *f, const char *launcher, const char *program,
                      const char *script)
{
    launch_service_start(&f->service, f->directory, launcher, program);
    must(start_shell(f, script), f->err);
}

static void launch(struct fixture *f, const char *script)
{
    launch_by(f, KILN_LAUNCH, "/bin/sh", script);
}

static void wait_for_end(struct fixture *f)
{
    LOOP_UNTIL(f->loop, f->exits);
    worker_process_close(&f->process);
}

/* Returns the next packet from the program, or "" if the socket was closed. */
static const char *receive_text(struct fixture *f)
{
    static char said[256];
    ssize_t got;
    IN_TIME(got = recv(f->far_end, said, sizeof(said) - 1, 0));
    assert_true(got >= 0);
    said[got] = '\0';
    return said;
}

TEST_F(launched, a_launched_process_has_its_descriptor_and_its_end_is_reported)
{
    launch(f, "printf hello >&3; exit 7");

    wait_for_end(f);

    assert_string_equal(receive_text(f), "hello");
    assert_int_equal(f->status, 7);
    assert_int_equal(f->signal, 0);
    assert_int_equal(f->process.uid, getuid());
    assert_int_equal(f->exits, 1);
}

TEST_F(launched, the_signal_that_ended_a_worker_is_reported)
{
    launch(f, "kill -ABRT $$");
    wait_for_end(f);
    assert_int_equal(f->signal, SIGABRT);
}

TEST_F(launched, a_launched_worker_starts_in_the_directory_it_was_given)
{
    f->spawn.directory = open(f->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    launch(f, "pwd -P >&3");
    close(f->spawn.directory);

    wait_for_end(f);

    assert_memory_equal(receive_text(f), f->directory, strlen(f->directory));
}

TEST_F(launched, a_launched_worker_has_no_socket_activation_variables)
{
    launch(f, "printf \"${LISTEN_FDS-no}${LISTEN_PID-ne}\" >&3");
    wait_for_end(f);
    assert_string_equal(receive_text(f), "none");
}

/* The last receive_text returns "" only when all processes that inherited the socket have ended. */
TEST_F(launched, a_kill_ends_a_worker_and_its_children)
{
    launch(f, "sleep 1000 & printf up >&3; wait");
    assert_string_equal(receive_text(f), "up");

    worker_process_kill(&f->process);
    wait_for_end(f);

    assert_int_equal(f->signal, SIGKILL);
    assert_string_equal(receive_text(f), "");
}

TEST_F(launched, a_launched_worker_ends_when_its_connection_is_closed)
{
    launch(f, "printf up >&3; sleep 1000");
    assert_string_equal(receive_text(f), "up");

    worker_process_close(&f->process);

    assert_string_equal(receive_text(f), "");
    assert_int_equal(f->exits, 0);
}

TEST_F(launched, a_missing_service_is_reported_with_advice)
{
    snprintf(f->service.path, sizeof(f->service.path), "%s/none", f->directory);

    assert_int_equal(start_shell(f, ""), KILN_UNAVAILABLE);

    assert_says(f->err.text, f->service.path);
    assert_says(f->err.text, "such file");
    assert_says(f->err.text, "kiln-compiler.socket");
    assert_int_equal(f->owner.open, 1);
}

TEST_F(launched, too_many_arguments_of_a_launch_are_refused)
{
    char script[LAUNCH_PACKET_MAX + 1];
    memset(script, 'x', sizeof(script) - 1);
    script[sizeof(script) - 1] = '\0';
    launch_service_start(&f->service, f->directory, KILN_LAUNCH, "/bin/sh");

    assert_int_equal(start_shell(f, script), KILN_INVALID);

    assert_says(f->err.text, "too long");
}

TEST_F(launched, a_unit_that_fails_to_start_is_reported_as_a_lost_process)
{
    launch_by(f, "/bin/true", NULL, "");
    wait_for_end(f);

    assert_int_equal(f->status, WORKER_PROCESS_LOST);
}

TEST_F(launched, a_program_that_cannot_be_run_has_exit_status_127)
{
    launch_by(f, KILN_LAUNCH, "/nonexistent", "");
    wait_for_end(f);
    assert_int_equal(f->status, 127);
}

TEST_F(launched, a_service_that_ignores_a_kill_is_reported_as_a_lost_process)
{
    f->spawn.lost_ms = 20;
    launch_by(f, "/bin/sleep", "1", "");

    worker_process_kill(&f->process);
    wait_for_end(f);

    assert_int_equal(f->status, WORKER_PROCESS_LOST);
}

/* Returns the nice value of the scheduling group of the process's session, or 0 if it is
 * unknown. */
static int niceness_of_session(pid_t pid)
{
    char path[64];
    int niceness = 0;
    snprintf(path, sizeof(path), "/proc/%d/autogroup", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "/autogroup-%*d nice %d", &niceness) != 1)
        niceness = 0;
    if (file)
        fclose(file);
    return niceness;
}

/* The launch service starts kiln-launch, which starts the program. */
static bool a_session_of_the_service_is_nice(const struct fixture *f)
{
    pid_t launchers[4] = { 0 }, programs[4];
    unsigned count = children_of(f->service.pid, launchers, 4);
    if (count > 0)
        count = children_of(launchers[0], programs, 4);
    return count > 0 && niceness_of_session(programs[0]) == 10;
}

/* kiln-launch starts a session for each transfer. The service manager does not. */
TEST_F(launched, the_session_of_a_launched_transfer_gives_way_to_kilnd)
{
    static const char *const arguments[] = { "kiln-transfer", "--launched", NULL };
    SKIP_IF(geteuid() != 0, "other users may change few groups per second");
    SKIP_IF(access("/proc/self/autogroup", F_OK) != 0, "sessions are no scheduling groups here");
    launch_service_start(&f->service, f->directory, KILN_LAUNCH, KILN_TRANSFER);
    must(start_program(f, arguments), f->err);

    LOOP_UNTIL(f->loop, a_session_of_the_service_is_nice(f));

    worker_process_kill(&f->process);
    wait_for_end(f);
}

static void expect_no_answer(struct fixture *f, const void *packet, size_t size, const char *what)
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
        fail_msg("%s was answered", what);
    close(control);
}

TEST(launched, a_packet_without_a_descriptor_starts_nothing)
{
    expect_no_answer(*state, "sh", 2, "a packet without a descriptor");
}

TEST(launched, a_client_that_leaves_before_its_request_starts_nothing)
{
    expect_no_answer(*state, NULL, 0, "a closed connection");
}

static int run_launcher(const char *argument)
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

TEST(plain, kiln_launch_started_by_hand_exits_with_a_usage_error)
{
    assert_int_equal(run_launcher(NULL), 2);
    assert_int_equal(run_launcher("sh"), 2);
    assert_int_equal(run_launcher("/bin/sh"), 2);
    assert_int_equal(run_launcher("--help"), 0);
    assert_int_equal(run_launcher("--version"), 0);
}
