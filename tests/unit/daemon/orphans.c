/* SPDX-License-Identifier: MIT */
/* Processes that are nobody's children, whatever process starts them. */
#include "daemon/loop/orphan.h"

#include "daemon/loop/quiet_thread.h"
#include "tests/support/refused_call.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_MOST 4096
#define LONG_MS 60000

#ifdef __SANITIZE_THREAD__ /* orphan.c says why */
#define __wrap_clone __wrap___clone
#define __real_clone __real___clone
#endif

static bool no_clone;
int __real_clone(int (*run)(void *), void *stack, int flags, void *argument, ...);
int __wrap_clone(int (*run)(void *), void *stack, int flags, void *argument, ...);
int __wrap_clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
    errno = EAGAIN;
    return no_clone ? -1 : __real_clone(run, stack, flags, argument);
}

static volatile sig_atomic_t children_ended;
static void on_child(int number) { children_ended += number == SIGCHLD; }

struct birth {
    const char *program, *script;
    int ours; /* the other end of its descriptor 3 */
    struct kiln_err err;
    enum kiln_code rc;
    const char *wrong;
};

/* As the engine's thread does it, with all signals blocked. */
static void *start(void *context)
{
    struct birth *b = context;
    int ends[2];
    const char *const arguments[] = { "sh", "-c", b->script, NULL };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    const struct loop_spawn spawn = {
        .program = b->program, .arguments = arguments, .fd_2 = -1, .fd_3 = ends[1]
    };
    b->rc = loop_orphan_start(&spawn, &b->err);
    close(ends[1]);
    b->ours = ends[0];
    return NULL;
}

static struct birth give_birth(const char *program, const char *script)
{
    struct birth b = { .program = program, .script = script, .err = KILN_ERR_INIT };
    pthread_t thread;
    assert_int_equal(quiet_thread_start(&thread, start, &b), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return b;
}

/* Until all that have it have ended. */
static void read_all(int fd, char said[SAID_MOST])
{
    size_t used = 0;
    ssize_t got;
    while ((got = read(fd, said + used, SAID_MOST - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = '\0';
    close(fd);
}

static void expect_no_child(void)
{
    assert_int_equal(waitpid(-1, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(children_ended, 0);
}

static int set_up(void **state)
{
    (void)state;
    no_clone = false;
    children_ended = 0;
    signal(SIGCHLD, on_child);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    signal(SIGCHLD, SIG_DFL);
    return 0;
}

/* Runs |body| in a process that orphans come to. */
static void as_a_subreaper(void (*body)(void **state))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        const struct CMUnitTest tests[] = { { "as a subreaper", body, NULL, NULL, NULL } };
        _exit(cmocka_run_group_tests_name("orphans", tests, NULL, NULL));
    }
    int status;
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void no_wait_sees_it_while_it_runs_nor_its_end(void **state)
{
    (void)state;
    char said[SAID_MOST];
    struct birth b = give_birth("/bin/sh", "read line <&3; echo $line of $PPID >&3");
    must(b.rc, b.err);
    expect_no_child();
    assert_int_equal(write(b.ours, "word\n", 5), 5);
    read_all(b.ours, said);
    assert_int_equal(strncmp(said, "word of ", 8), 0);
    assert_int_not_equal(atoi(said + 8), getpid());
    expect_no_child();
}

static void one_that_cannot_be_run_is_told(void **state)
{
    (void)state;
    struct birth b = give_birth("/nonexistent", "");
    assert_int_equal(b.rc, KILN_NOT_FOUND);
    assert_says(b.err.text, "cannot run '/nonexistent'");
    close(b.ours);
    no_clone = true;
    b = give_birth("/bin/sh", "");
    assert_int_not_equal(b.rc, KILN_OK);
    assert_says(b.err.text, "cannot run '/bin/sh'");
    close(b.ours);
    no_clone = false;
    expect_no_child();
}

static void so_it_is_where_orphans_come_to_us(void **state)
{
    (void)state;
    as_a_subreaper(one_that_cannot_be_run_is_told);
}

/* NULL, or what is wrong. */
static const char *look_at_one(struct birth *b)
{
    char said[SAID_MOST];
    start(b);
    if (b->rc)
        return b->err.text;
    if (waitpid(-1, NULL, 0) != -1)
        return "it is a child";
    if (write(b->ours, "word\n", 5) != 5)
        return "it does not listen";
    read_all(b->ours, said);
    bool is_ours = strncmp(said, "word of ", 8) != 0 || atoi(said + 8) == getpid();
    return is_ours ? "it has this process for its parent" : NULL;
}

static void *start_twice(void *context)
{
    struct birth *b = context;
    for (int i = 0; i < 2 && !b->wrong; i++)
        b->wrong = look_at_one(b);
    if (!b->wrong && waitpid(-1, NULL, 0) != -1)
        b->wrong = "it left a child";
    return NULL;
}

static void start_two_in_a_thread(void **state)
{
    (void)state;
    struct birth b = { .program = "/bin/sh",
                       .script = "read line <&3; echo $line of $PPID >&3",
                       .err = KILN_ERR_INIT };
    pthread_t thread;
    assert_int_equal(quiet_thread_start(&thread, start_twice, &b), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (b.wrong)
        fail_msg("%s", b.wrong);
    assert_int_equal(children_ended, 0);
}

static void where_orphans_come_to_us_it_has_a_parent_that_no_wait_sees(void **state)
{
    (void)state;
    as_a_subreaper(start_two_in_a_thread);
}

/* In a thread whose errno its parent has, too, and where a wait for a child fails in the end. */
static void *start_and_reap(void *context)
{
    struct birth *b = context;
    signal(SIGCHLD, SIG_IGN);
    b->wrong = look_at_one(b);
    errno = 0;
    loop_orphans_reap(LONG_MS);
    if (!b->wrong && errno != 0)
        b->wrong = strerror(errno);
    if (!b->wrong && waitpid(-1, NULL, __WALL | WNOHANG) != -1)
        b->wrong = "its parent is left to be reaped";
    return NULL;
}

static void start_one_and_reap(void **state)
{
    (void)state;
    struct birth b = { .program = "/bin/sh",
                       .script = "read line <&3; echo $line of $PPID >&3",
                       .err = KILN_ERR_INIT };
    pthread_t thread;
    assert_int_equal(quiet_thread_start(&thread, start_and_reap, &b), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (b.wrong)
        fail_msg("%s", b.wrong);
}

static void that_parent_ends_with_it_is_reaped_and_leaves_errno_alone(void **state)
{
    (void)state;
    as_a_subreaper(start_one_and_reap);
}

static void start_one_that_close_range_is_refused_to(void **state)
{
    (void)state;
    char said[SAID_MOST];
    int ends[2];
    assert_true(refuse_call(SYS_close_range, EPERM));
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    struct birth b = give_birth("/bin/sh", "read line <&3; echo $line >&3");
    must(b.rc, b.err);
    close(ends[1]);
    assert_int_equal(read(ends[0], said, 1), 0); /* nobody else has it */
    close(ends[0]);
    assert_int_equal(write(b.ours, "word\n", 5), 5);
    read_all(b.ours, said);
    assert_string_equal(said, "word\n");
    loop_orphans_reap(LONG_MS);
}

static void nor_does_it_hold_a_file_where_close_range_is_refused(void **state)
{
    (void)state;
    as_a_subreaper(start_one_that_close_range_is_refused_to);
}

static void a_child_of_fork_has_no_such_parent(void **state)
{
    (void)state;
    loop_orphans_disown();
    loop_orphans_reap(LONG_MS); /* at once */
    expect_no_child();
}

#define ORPHAN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ORPHAN_TEST(no_wait_sees_it_while_it_runs_nor_its_end),
        ORPHAN_TEST(one_that_cannot_be_run_is_told),
        ORPHAN_TEST(so_it_is_where_orphans_come_to_us),
        ORPHAN_TEST(where_orphans_come_to_us_it_has_a_parent_that_no_wait_sees),
        ORPHAN_TEST(that_parent_ends_with_it_is_reaped_and_leaves_errno_alone),
        ORPHAN_TEST(nor_does_it_hold_a_file_where_close_range_is_refused),
        ORPHAN_TEST(a_child_of_fork_has_no_such_parent),
    };
    return cmocka_run_group_tests_name("orphans", tests, NULL, NULL);
}
