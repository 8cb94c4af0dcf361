/* SPDX-License-Identifier: MIT */
/* A job's process is the job's: its signals, files, children and end, with the engine in it. */
#include "tests/integration/embedded_steps.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void not_with_thread_sanitizer(const char *why)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: %s\n", why);
    skip();
#endif
    (void)why;
}

/* ---- steps that the test takes ---- */

struct step {
    struct shared *shared;
    unsigned number;
};

static bool has_come(void *context)
{
    const struct step *step = context;
    return atomic_load(&step->shared->allowed) >= step->number;
}

static bool await_step(struct fixture *f, unsigned number)
{
    return wait_until(has_come, &(struct step){ f->shared, number });
}

/* ---- what is the process's ---- */

static void jobs_handler(int number) { (void)number; }

/* All threads but the calling one have SIGTERM blocked. */
static bool other_threads_are_quiet(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool are_quiet = tasks;
    unsigned others = 0;
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        char path[300], line[256];
        unsigned long long blocked = 0;
        if (e->d_name[0] == '.' || atoi(e->d_name) == (int)getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
            sscanf(line, "SigBlk: %llx", &blocked);
        if (file)
            fclose(file);
        others++;
#ifndef __SANITIZE_THREAD__ /* which has a thread of its own */
        are_quiet =
            are_quiet && (blocked & 1ull << (SIGTERM - 1)) && (blocked & 1ull << (SIGCHLD - 1));
#endif
    }
    if (tasks)
        closedir(tasks);
    return are_quiet && others > 0;
}

static int keep_what_is_the_jobs(struct fixture *f)
{
    struct kiln_error err = { 0 };
    char before[512], after[512];
    struct sigaction now;
    (void)f;
    umask(027);
    NEED(1, getcwd(before, sizeof(before)));
    for (int n = 1; n < 32; n++)
        signal(n, n % 2 ? jobs_handler : SIG_IGN);
    signal(SIGCHLD, jobs_handler);
    signal(SIGSEGV, SIG_DFL);
    struct kiln_client *client = open_client(&err);
    NEED(2, client && fetch(client, 0, &err) == 0);
    NEED(3, other_threads_are_quiet());
    kiln_client_close(client);
    for (int n = 1; n < 32; n++) {
        if (n == SIGKILL || n == SIGSTOP || n == SIGSEGV)
            continue;
        NEED(4, sigaction(n, NULL, &now) == 0);
        NEED(5, now.sa_handler == (n % 2 || n == SIGCHLD ? jobs_handler : SIG_IGN));
    }
    NEED(6, umask(027) == 027);
    NEED(7, getcwd(after, sizeof(after)) && strcmp(before, after) == 0);
    NEED(8, !getenv("UV_THREADPOOL_SIZE"));
    return 0;
}

TEST(embedded, a_jobs_signals_umask_and_standard_error_stay_its_own)
{
    struct fixture *f = *state;
    run_as_job(f, keep_what_is_the_jobs);
    expect_the_notice_alone(f, 0, f->store);
}

static int be_silent(struct fixture *f)
{
    setenv("KILN_FALLBACK_NOTICE", "off", 1);
    return use_once(f);
}

TEST(embedded, the_notice_can_be_hidden)
{
    struct fixture *f = *state;
    run_as_job(f, be_silent);
    assert_string_equal(stderr_of(f, 0), "");
}

static int fork_after_use(struct fixture *f)
{
    struct kiln_error err = { 0 };
    without_compilers();
    struct kiln_client *client = open_client(&err);
    NEED(1, client && kiln_client_ping(client, 0, NULL, &err) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        NEED(11, kiln_client_ping(client, 0, NULL, &err) == KILN_E_INVALID);
        kiln_client_close(client); /* leaves the parent's alone */
        _exit(use_once(f));        /* by one of its own, which the parent serves */
    }
    NEED(2, wait_program(pid) == 0);
    NEED(3, atomic_load(&f->shared->jobs[0].server) == (int)getpid());
    NEED(4, kiln_client_ping(client, 0, NULL, &err) == 0);
    kiln_client_close(client);
    return 0;
}

TEST(embedded, a_child_of_fork_has_a_client_of_its_own) { run_as_job(*state, fork_after_use); }

/* A child has no store of its own: what its parent had open there is not the child's. */
static int be_orphaned(struct fixture *f)
{
    struct kiln_error err = { 0 };
    struct seen *seen = &f->shared->jobs[1];
    NEED(11, await_step(f, 1));
    struct kiln_client *client = open_client(&err);
    bool has_kernel = client && fetch(client, 0, &err) == 0;
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    NEED(12, has_kernel);
    look(client, seen);
    kiln_client_close(client);
    return 0;
}

static bool sleeps(const char *thread)
{
    char path[300], text[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", thread);
    FILE *file = fopen(path, "re");
    const char *end = file && fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
    if (file)
        fclose(file);
    return end && end[1] == ' ' && end[2] == 'S';
}

static bool others_sleep(void *unused)
{
    DIR *tasks = opendir("/proc/self/task");
    bool do_sleep = tasks;
    (void)unused;
    for (struct dirent *e; tasks && (e = readdir(tasks));)
        do_sleep = do_sleep &&
                   (e->d_name[0] == '.' || atoi(e->d_name) == (int)getpid() || sleeps(e->d_name));
    if (tasks)
        closedir(tasks);
    return do_sleep;
}

/* The sanitizer's own locks stay in a child as they were at fork: nobody is to have one then. */
static bool await_sleep(void)
{
#ifdef __SANITIZE_ADDRESS__
    return wait_until(others_sleep, NULL);
#endif
    (void)others_sleep;
    return true;
}

static int leave_an_orphan(struct fixture *f)
{
    struct kiln_error err = { 0 };
    struct kiln_client *client = open_client(&err);
    NEED(1, client && fetch(client, 0, &err) == 0);
    NEED(4, await_sleep());
    pid_t pid = fork();
    if (pid == 0)
        _exit(be_orphaned(f));
    kiln_client_close(client);
    atomic_store(&f->shared->allowed, 1);
    NEED(2, wait_program(pid) == 0);
    NEED(3, use_once(f) == 0); /* the child has left it nothing in the way */
    return 0;
}

TEST(embedded, a_child_whose_parent_has_ended_serves_itself_from_memory)
{
    struct fixture *f = *state;
    not_with_thread_sanitizer("the sanitizer starts no threads after fork");
    run_as_job(f, leave_an_orphan);
    assert_int_equal(atomic_load(&f->shared->jobs[1].rung), KILN_RUNG_EMBEDDED);
    assert_says(f->shared->jobs[1].reason, "forked from one that served itself");
    assert_says(f->shared->jobs[0].reason, f->store);
    expect_sound_store(f);
}

/* As a loader of data that outlives the job: it holds whatever the job had open. */
static int leave_a_child_behind(struct fixture *f)
{
    struct kiln_error err = { 0 };
    without_compilers();
    struct kiln_client *client = open_client(&err);
    NEED(1, client && kiln_client_ping(client, 0, NULL, &err) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    atomic_store(&f->shared->jobs[1].server, (int)pid);
    kill(getpid(), SIGKILL);
    return 2;
}

TEST(embedded, a_child_that_outlives_a_job_keeps_nothing_locked)
{
    struct fixture *f = *state;
    not_with_thread_sanitizer("the sanitizer takes two tables of descriptors for one");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        in_a_job(f, 0);
        _exit(leave_a_child_behind(f));
    }
    assert_int_equal(wait_program(pid), 128 + SIGKILL);
    pid_t child = atomic_load(&f->shared->jobs[1].server);
    assert_true(child > 0);
    run_as_job(f, use_once);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(atomic_load(&f->shared->jobs[0].rung), KILN_RUNG_EMBEDDED);
    assert_says(f->shared->jobs[0].reason, f->store); /* in which it was let, so no lock was left */
    expect_sound_store(f);
}

/* ---- its files ---- */

#define FILES 40

struct files {
    FILE *file[FILES];
    ino_t inode[FILES];
};

static bool open_files(struct fixture *f, struct files *files)
{
    for (unsigned i = 0; i < FILES; i++) {
        char path[256];
        struct stat seen;
        snprintf(path, sizeof(path), "%s/file.%u", f->daemon.folder, i);
        files->file[i] = fopen(path, "ae");
        if (!files->file[i] || fstat(fileno(files->file[i]), &seen) != 0)
            return false;
        files->inode[i] = seen.st_ino;
    }
    return true;
}

/* Into the buffer alone: it is written at exit. */
static bool write_files(struct files *files, const char *word)
{
    bool are_ours = true;
    for (unsigned i = 0; i < FILES; i++) {
        struct stat seen;
        are_ours = are_ours && fstat(fileno(files->file[i]), &seen) == 0 &&
                   seen.st_ino == files->inode[i] && fputs(word, files->file[i]) >= 0;
    }
    return are_ours;
}

static void expect_files_to_say(struct fixture *f, const char *words)
{
    for (unsigned i = 0; i < FILES; i++)
        shell_says(words, f->daemon.folder, "cat file.%u", i);
}

static struct kiln_client *left_open; /* by jobs that end without closing it */

/* Of a job that ends at work, or whose first thread's stack is gone before: then nothing leads to
 * memory that was in use. */
static bool leaks_are_no_news;
int __lsan_is_turned_off(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void) { return leaks_are_no_news; }

static int write_and_fork(struct fixture *f)
{
    struct kiln_error err = { 0 };
    static struct files files;
    without_compilers();
    left_open = open_client(&err);
    NEED(1, left_open && kiln_client_ping(left_open, 0, NULL, &err) == 0);
    NEED(2, open_files(f, &files));
    pid_t pid = fork();
    if (pid == 0) {
        NEED(11, write_files(&files, "child "));
        exit(0);
    }
    NEED(3, wait_program(pid) == 0);
    NEED(4, write_files(&files, "parent"));
    exit(0);
}

/* The engine's library has files of its own, which it may not take for those of a child, nor of a
 * job that ends. */
TEST(embedded, what_a_job_and_its_child_write_at_their_ends_is_written)
{
    struct fixture *f = *state;
    run_as_job(f, write_and_fork);
    expect_files_to_say(f, "child parent");
}

static int close_everything(struct fixture *f)
{
    struct kiln_error err = { 0 };
    static struct files files;
    without_compilers();
    left_open = open_client(&err);
    NEED(1, left_open && kiln_client_ping(left_open, 0, NULL, &err) == 0);
    NEED(2, close_range(STDERR_FILENO + 1, ~0u, 0) == 0);
    NEED(3, kiln_client_ping(left_open, 0, NULL, &err) == 0);
    NEED(4, close_range(STDERR_FILENO + 1, ~0u, 0) == 0);
    NEED(5, open_files(f, &files));
    NEED(6, kiln_client_ping(left_open, 0, NULL, &err) == 0);
    look(left_open, &f->shared->jobs[0]);
    kiln_client_close(left_open);
    NEED(7, write_files(&files, "word"));
    exit(0);
}

TEST(embedded, a_job_may_close_all_files_that_it_finds)
{
    struct fixture *f = *state;
    not_with_thread_sanitizer("the sanitizer's threads share the job's files");
    run_as_job(f, close_everything);
    assert_int_equal(atomic_load(&f->shared->jobs[0].rung), KILN_RUNG_EMBEDDED);
    assert_says(f->shared->jobs[0].reason, f->store);
    expect_files_to_say(f, "word");
}

static int have_nobody_at_standard_error(struct fixture *f)
{
    int ends[2];
    signal(SIGPIPE, SIG_DFL);
    NEED(1, pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[0]);
    close(ends[1]);
    NEED(2, use_once(f) == 0);
    return 0;
}

TEST(embedded, a_job_whose_standard_error_nobody_reads_goes_on)
{
    run_as_job(*state, have_nobody_at_standard_error);
}

/* ---- its children ---- */

static void *wait_for_all(void *unused)
{
    (void)unused;
    for (;;) {
        if (waitpid(-1, NULL, 0) < 0)
            usleep(1000);
    }
    return NULL;
}

static int wait_for_children_of_all_kinds(struct fixture *f)
{
    struct kiln_error err = { 0 };
    pthread_t waiter;
    NEED(1, pthread_create(&waiter, NULL, wait_for_all, NULL) == 0);
    struct kiln_client *client = open_client(&err);
    bool is_made = client && fetch(client, 0, &err) == 0;
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    NEED(2, is_made);
    kiln_client_close(client);
    return 0;
}

TEST(embedded, a_job_that_waits_for_all_children_has_its_kernels)
{
    run_as_job(*state, wait_for_children_of_all_kinds);
}

/* ---- its questions ---- */

static int ask_as_administrator(struct fixture *f)
{
    struct kiln_error err = { 0 };
    char *status = NULL, *stats = NULL, pid[32], store[300];
    without_compilers();
    struct kiln_client *client = open_client(&err);
    const struct kiln_admin_call call = { .size = sizeof(call), .request = "stats" };
    NEED(1, client && kiln_admin(client, "status", NULL, 0, &status, &err) == 0);
    snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)getpid());
    snprintf(store, sizeof(store), "\"cache_dir\":\"%s\"", f->store);
    NEED(2, strstr(status, pid) && strstr(status, store));
    NEED(3, kiln_admin_call(client, &call, &stats, &err) == KILN_E_UNAVAILABLE);
    kiln_free(status);
    NEED(4, kiln_admin(client, "tuning_vacuum", NULL, 0, &status, &err) == 0);
    kiln_free(status);
    kiln_client_close(client);
    return 0;
}

TEST(embedded, a_job_administers_its_own_engine) { run_as_job(*state, ask_as_administrator); }

/* ---- its end ---- */

static int close_while_the_engine_cannot_end(struct fixture *f)
{
    struct kiln_error err = { 0 };
    without_compilers();
    setenv("KILN_FALLBACK_PATIENCE", "50", 1);
    struct kiln_client *client = open_client(&err);
    NEED(1, client && kiln_client_ping(client, 0, NULL, &err) == 0);
    sqlite3_mutex *of_files = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS1);
    sqlite3_mutex_enter(of_files);
    kiln_client_close(client);
    sqlite3_mutex_leave(of_files);
    NEED(2, use_once(f) == 0); /* once it has ended */
    return 0;
}

TEST(embedded, a_client_is_closed_though_the_engine_does_not_end)
{
    run_as_job(*state, close_while_the_engine_cannot_end);
}

enum way { BY_EXIT, BY_EXIT_AT_ONCE, BY_LAST_THREAD, BY_KILL };

static struct kiln_problem problem_of(uint32_t n)
{
    return (struct kiln_problem){ .size = sizeof(struct kiln_problem),
                                  .spatial_dims = 2,
                                  .n = n,
                                  .c = 4,
                                  .k = 8,
                                  .groups = 1,
                                  .in = { 1, 8, 8 },
                                  .filter = { 1, 3, 3 },
                                  .pad = { 0, 1, 1 },
                                  .stride = { 1, 1, 1 },
                                  .dilation = { 1, 1, 1 } };
}

static int record(struct kiln_client *client, uint32_t n, struct kiln_error *err)
{
    const struct kiln_measurement m = { .size = sizeof(m),
                                        .solver = "SolverC",
                                        .algorithm = "miopenConvolutionFwdAlgoWinograd",
                                        .params = "1,2,3",
                                        .samples = 11,
                                        .median_ms = 0.5 };
    const struct kiln_recording r = { .size = sizeof(r),
                                      .database_id = "gfx90a68",
                                      .tier = KILN_TUNING_USER,
                                      .device = "MI210",
                                      .driver = "6.2.4",
                                      .toolchain = "clang 17",
                                      .measurements = &m,
                                      .measurement_count = 1 };
    struct kiln_problem problem = problem_of(n);
    return kiln_find_put(client, &problem, &r, 0, err);
}

static bool is_recorded(struct kiln_client *client, uint32_t n, struct kiln_error *err)
{
    struct kiln_problem problem = problem_of(n);
    struct kiln_tuned *tuned = NULL;
    const struct kiln_tuning_options options = { .size = sizeof(options),
                                                 .database_id = "gfx90a68" };
    bool is_there = kiln_find_get(client, &problem, &options, 0, &tuned, err) == 0 &&
                    kiln_tuned_tier(tuned) == KILN_TUNING_USER;
    kiln_tuned_free(tuned);
    return is_there;
}

static int record_and_end(struct fixture *f, enum way way)
{
    struct kiln_error err = { 0 };
    static struct files files;
    without_compilers();
    left_open = open_client(&err);
    NEED(1, left_open && open_files(f, &files));
    NEED(2, record(left_open, 900 + way, &err) == 0);
    NEED(3, write_files(&files, "."));
    atomic_store(&f->shared->jobs[0].had, 1);
    NEED(4, await_step(f, 1));
    switch (way) {
    case BY_EXIT: exit(0);
    case BY_EXIT_AT_ONCE: _exit(0);
    case BY_LAST_THREAD: leaks_are_no_news = true; pthread_exit(NULL);
    default: raise(SIGKILL);
    }
    return 5;
}

static int follow_and_go_on(struct fixture *f, enum way way)
{
    struct kiln_error err = { 0 };
    struct seen *seen = &f->shared->jobs[1];
    without_compilers();
    struct kiln_client *client = open_client(&err);
    NEED(11, client && kiln_client_ping(client, 0, NULL, &err) == 0);
    look(client, seen);
    atomic_store(&seen->had, 1);
    NEED(12, await_step(f, 2));
    bool is_there = is_recorded(client, 900 + way, &err);
    snprintf(seen->error, sizeof(seen->error), "%s", err.text);
    NEED(13, is_there);
    NEED(14, record(client, 800 + way, &err) == 0); /* it may write now */
    look(client, seen);
    kiln_client_close(client);
    return 0;
}

struct news {
    struct fixture *f;
    unsigned job;
};

static bool has_news(void *context)
{
    const struct news *news = context;
    expect_alive(news->f);
    return atomic_load(&news->f->shared->jobs[news->job].had) > 0;
}

static void start_one(struct fixture *f, int (*body)(struct fixture *f, enum way way), enum way way)
{
    unsigned job = f->jobs++;
    f->pids[job] = fork();
    assert_true(f->pids[job] >= 0);
    if (f->pids[job] == 0) {
        in_a_job(f, job);
        _exit(body(f, way));
    }
    if (!wait_until(has_news, &(struct news){ f, job }))
        fail_msg("job %u does not come to it: '%s'", job, stderr_of(f, job));
}

static int end_of(struct fixture *f, unsigned job)
{
    int status = wait_program(f->pids[job]);
    f->pids[job] = 0;
    return status;
}

static void expect_nothing_lost_by(struct fixture *f, enum way way)
{
    memset(f->shared, 0, sizeof(*f->shared));
    f->jobs = 0;
    start_one(f, record_and_end, way);
    start_one(f, follow_and_go_on, way);
    pid_t first = f->pids[0], second = f->pids[1];
    assert_int_equal(atomic_load(&f->shared->jobs[1].server), first);
    atomic_store(&f->shared->allowed, 1);
    assert_int_equal(end_of(f, 0), way == BY_KILL ? 128 + SIGKILL : 0);
    atomic_store(&f->shared->allowed, 2);
    int status = end_of(f, 1);
    if (status)
        fail_msg("way %d: step %d, '%s'", (int)way, status, f->shared->jobs[1].error);
    assert_int_equal(atomic_load(&f->shared->jobs[1].server), second);
    expect_sound_store(f);
}

/* What was acknowledged was on disk before; whom it served, others go on by one of themselves. */
TEST(embedded, a_job_that_ends_without_closing_loses_nothing)
{
    struct fixture *f = *state;
    expect_nothing_lost_by(f, BY_EXIT);
    expect_files_to_say(f, ".");
    expect_nothing_lost_by(f, BY_EXIT_AT_ONCE);
    expect_nothing_lost_by(f, BY_KILL);
}

TEST(embedded, it_ends_with_its_last_thread_and_loses_nothing)
{
    struct fixture *f = *state;
    not_with_thread_sanitizer("the sanitizer's own thread stays");
    expect_nothing_lost_by(f, BY_LAST_THREAD);
    expect_files_to_say(f, ".");
}

static void *ask_for_ever(void *context)
{
    struct kiln_error err = { 0 };
    for (unsigned n = 0;; n++) {
        fetch(left_open, n, &err);
        atomic_fetch_add((atomic_uint *)context, 1);
    }
    return NULL;
}

static bool has_some(void *context) { return atomic_load((atomic_uint *)context) > 0; }

static int end_while_a_thread_asks(struct fixture *f)
{
    struct kiln_error err = { 0 };
    pthread_t thread;
    left_open = open_client(&err);
    NEED(1, left_open);
    NEED(2, pthread_create(&thread, NULL, ask_for_ever, &f->shared->jobs[0].had) == 0);
    NEED(3, wait_until(has_some, &f->shared->jobs[0].had));
    leaks_are_no_news = true;
    exit(0);
}

TEST(embedded, a_job_may_end_while_a_thread_asks)
{
    struct fixture *f = *state;
    run_as_job(f, end_while_a_thread_asks);
    expect_sound_store(f);
}

/* ---- libkiln itself ---- */

TEST(embedded, libkiln_may_be_unloaded)
{
    struct fixture *f = *state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        in_a_job(f, 0);
        without_compilers();
        execl(KILN_BIN "/../tests/unloading_job", "unloading_job", KILN_BIN "/../lib/libkiln.so.0",
              NULL);
        _exit(127);
    }
    int status = wait_program(pid);
    if (status)
        fail_msg("status %d: '%s'", status, stderr_of(f, 0));
}
