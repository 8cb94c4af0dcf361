/* SPDX-License-Identifier: MIT */
#include "tests/support/wait.h"

#include "tests/support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MS 2

static pid_t test_process;
static const char *awaited;

static void __attribute__((constructor)) note_process(void) { test_process = getpid(); }

/* Fails the test if the caller is the test's own thread. Otherwise aborts the process: cmocka's
 * fail() uses longjmp(3), which must not leave its thread. */
void fail_wait(int seconds, const char *what)
{
    if (getpid() == test_process && gettid() == test_process)
        fail_msg("waited %d s for %s", seconds, what);
    fprintf(stderr, "process %d waited %d s for %s\n", (int)getpid(), seconds, what);
    abort();
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Does not use nanosleep, because some tests replace it. */
static void pause_briefly(void)
{
    const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

bool holds_in_time(bool (*holds)(void *context), void *context)
{
    double end = seconds_now() + WAIT_MAX_S;
    while (!holds(context)) {
        if (seconds_now() > end)
            return false;
        pause_briefly();
    }
    return true;
}

void wait_until(const char *what, bool (*holds)(void *context), void *context)
{
    if (!holds_in_time(holds, context))
        fail_wait(WAIT_MAX_S, what);
}

void wait_a_little(unsigned waited, const char *what)
{
    if (waited > WAIT_MAX_S * 1000 / PAUSE_MS)
        fail_wait(WAIT_MAX_S, what);
    pause_briefly();
}

static bool thread_sleeps(void *context)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *(const pid_t *)context);
    FILE *file = fopen(path, "re");
    size_t used = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[used] = '\0';
    /* after the program's name in parentheses comes the thread's state */
    const char *state = strrchr(text, ')');
    return state && strncmp(state, ") S", 3) == 0;
}

bool await_work(struct pollfd *fds, unsigned count)
{
    int ready;
    do {
        ready = poll(fds, count, -1);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 && !fds[0].revents;
}

void await_sleep(pid_t tid) { wait_until("a thread to block", thread_sleeps, &tid); }

static void on_alarm(int number)
{
    static const char head[] = "waited a minute for: ";
    (void)number;
    if (write(STDERR_FILENO, head, sizeof(head) - 1) > 0 &&
        write(STDERR_FILENO, awaited, strlen(awaited)) > 0)
        abort();
    abort();
}

void wait_begin(const char *what)
{
    awaited = what;
    signal(SIGALRM, on_alarm);
    alarm(WAIT_MAX_S);
}

void wait_end(void) { alarm(0); }

void await_thread_long(pthread_t thread, void **ret_value, const char *what, int max_s)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += max_s;
    int rc = pthread_timedjoin_np(thread, ret_value, &end);
    if (rc == ETIMEDOUT)
        fail_wait(max_s, what);
    assert_int_equal(rc, 0);
}
