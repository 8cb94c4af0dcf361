/* SPDX-License-Identifier: MIT */
/* If a process forks while another thread loads a library, the library must be loaded completely in
 * the child. */
#include "libclient/load_lock.h"

#include "libclient/device/dynamic_library.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/test_descriptors.h"
#include "tests/support/wait.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct answer_cache {
    int (*is_loaded)(void);
};

static const char *const names[] = { SLOW_LIBRARY, NULL };
static const struct dynamic_symbol symbols[] = {
    { "slow_library_is_loaded", offsetof(struct answer_cache, is_loaded), true }
};

static struct fixture {
    int says[2], hears[2]; /* pipes to the library's constructor */
    pid_t forks;           /* the thread that forks */
    atomic_bool has_forked;
    struct answer_cache table;
    struct dynamic_library library;
} * fixture;

static uint64_t ahead_ns; /* added to the clock after the first reading */
static atomic_uint looks;

WRAP(uint64_t, clock_monotonic_ns, void)
{
    return __real_clock_monotonic_ns() + (atomic_fetch_add(&looks, 1) > 0 ? ahead_ns : 0);
}

static void report_library(const char *variable, int fd)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", fd);
    setenv(variable, number, 1);
}

SET_UP(set_up)
{
    fixture = f;
    ahead_ns = 0;
    test_pipe(0, &f->says[0], &f->says[1]);
    test_pipe(0, &f->hears[0], &f->hears[1]);
    report_library("SLOW_LIBRARY_SAYS", f->says[1]);
    report_library("SLOW_LIBRARY_HEARS", f->hears[0]);
    f->library = (struct dynamic_library){ .kind = "slow",
                                           .what = "the slow library",
                                           .file_variable = "KILN_SLOW_LIBRARY",
                                           .path_variable = "KILN_SLOW_LIBRARY_PATH",
                                           .names = names,
                                           .symbols = symbols,
                                           .symbol_count = 1,
                                           .table = &f->table };
}

FIXTURE(load_lock, set_up, NULL);

static int as_a_runtime(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = dynamic_library_use(&fixture->library, &err);
    if (rc)
        return (int)rc;
    return fixture->table.is_loaded() ? 0 : KILN_CORRUPT;
}

static int (*load)(void);

static void *load_in_a_thread(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)load();
}

static char state_of(pid_t thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    const char *end = strrchr(text, ')');
    return end ? end[2] : '\0';
}

/* Waits until the forking thread has forked or sleeps in its wait for the lock. Then lets the
 * library's constructor continue. */
static void *release(void *context)
{
    struct fixture *f = context;
    WAIT_FOR(atomic_load(&f->has_forked) || (!ahead_ns && state_of(f->forks) == 'S'));
    /* The constructor reads one byte. The test writes two, because the constructor runs again if
     * the child loads the library. */
    assert_int_equal(write(f->hears[1], "ll", 2), 2);
    return NULL;
}

static int fork_meanwhile(struct fixture *f)
{
    pthread_t releaser;
    f->forks = (pid_t)syscall(SYS_gettid);
    atomic_store(&looks, 0);
    assert_int_equal(pthread_create(&releaser, NULL, release, f), 0);
    pid_t child = fork();
    if (child == 0) {
        /* Calls exit_group, because with exit, a sanitizer would complain about threads that a fork
         * does not copy. */
        IN_TIME(syscall(SYS_exit_group, load()));
    }
    atomic_store(&f->has_forked, true);
    assert_true(child > 0);
    int status = await_child(child);
    await_thread(releaser, NULL);
    return status;
}

/* Forks while another thread runs |how|. The child then runs |how|, too. Returns the child's wait
 * status. |ret_own| receives the result of |how| in this process. */
static int load_and_fork(struct fixture *f, int (*how)(void), intptr_t *ret_own)
{
    pthread_t loader;
    void *own;
    char byte;
    load = how;
    load_lock_watch();
    assert_int_equal(pthread_create(&loader, NULL, load_in_a_thread, NULL), 0);
    ssize_t got;
    IN_TIME(got = read(f->says[0], &byte, 1));
    assert_int_equal(got, 1);
    int status = fork_meanwhile(f);
    await_thread(loader, &own);
    *ret_own = (intptr_t)own;
    return status;
}

/* Starts a process, in which no library is loaded yet. That process forks while |how| runs. The
 * exit status of the forked child must be |expected|. */
static void expect_of_a_fork(int (*how)(void), int expected)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        intptr_t own;
        int status = load_and_fork(fixture, how, &own);
        if (own)
            _exit(100 + (int)own);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status));
    }
    int status = await_child(pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

TEST(load_lock, a_child_forked_while_a_runtime_is_loaded_has_all_of_it)
{
    expect_of_a_fork(as_a_runtime, 0);
}

/* The thread that holds the lock may itself wait for the forking thread, so the fork must not wait
 * without limit. */
TEST(load_lock, a_load_that_does_not_end_keeps_no_process_from_forking)
{
    ahead_ns = 3600000000000ull;
    expect_of_a_fork(as_a_runtime, KILN_UNAVAILABLE);
}

TEST(load_lock, a_fork_during_a_load_does_not_block_the_child)
{
    struct kiln_err err = KILN_ERR_INIT;
    load_lock();
    pid_t pid = fork();
    if (pid == 0) {
        load_unlock();
        IN_TIME(load_lock());
        enum kiln_code rc = load_check(&err);
        load_unlock();
        _exit((int)rc);
    }
    load_unlock();
    assert_int_equal(await_child(pid), 0);
    load_lock();
    must(load_check(&err), err);
    load_unlock();
}
