/* SPDX-License-Identifier: MIT */
/*
 * Jobs without a kilnd: the engine in their own processes, one of which keeps the user's store for
 * all of them.  A job here is a child of the test; what it does and sees is in memory that both
 * share.
 */
#include "tests/integration/steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <kiln/kiln.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MOST 8
#define OVER 1000u

struct seen {        /* by one job */
    atomic_uint had; /* kernels so far */
    atomic_int rung, server;
    char reason[512];
    char error[1024];
};

struct shared {
    atomic_uint allowed; /* kernels that a job may have by now; OVER: it ends */
    struct seen jobs[JOBS_MOST];
};

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
    struct shared *shared;
    pid_t pids[JOBS_MOST];
    unsigned jobs;
    char store[256]; /* folder of the private store */
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    daemon_process_init(&f.daemon);
    f.shared =
        mmap(NULL, sizeof(*f.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(f.shared, MAP_FAILED);
    snprintf(f.store, sizeof(f.store), "%s/home/.cache/kiln/embedded", f.daemon.folder);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < f->jobs; i++) {
        if (f->pids[i] > 0 && kill(f->pids[i], SIGKILL) == 0)
            wait_program(f->pids[i]);
    }
    daemon_process_remove(&f->daemon);
    munmap(f->shared, sizeof(*f->shared));
    return 0;
}

/* ---- a job ---- */

static void in_a_job(const struct fixture *f, unsigned job)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/stderr.%u", f->daemon.folder, job);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
    close(fd);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof(path), "%s/home", f->daemon.folder);
    setenv("HOME", path, 1);
    snprintf(path, sizeof(path), "%s/run", f->daemon.folder);
    setenv("XDG_RUNTIME_DIR", path, 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("XDG_STATE_HOME");
    unsetenv("KILN_FALLBACK");
    unsetenv("KILN_FALLBACK_NOTICE");
    setenv("KILN_SOCKET", f->daemon.socket, 1);
}

static struct kiln_kernel_source numbered(unsigned n, char options[32])
{
    snprintf(options, 32, "-DN=%u", n);
    return (struct kiln_kernel_source){
        .size = sizeof(struct kiln_kernel_source),
        .target = "gfx942",
        .toolchain = "clang",
        .program = "scale.hip",
        .options = options,
        .source = "extern \"C\" __attribute__((global))\n"
                  "void scale(float *x) { x[__builtin_amdgcn_workitem_id_x()] *= N; }\n",
    };
}

static int fetch(struct kiln_client *client, unsigned n, struct kiln_error *err)
{
    char options[32];
    struct kiln_kernel *kernel = NULL;
    struct kiln_kernel_source source = numbered(n, options);
    int rc = kiln_kernel_fetch_source(client, &source, 0, &kernel, err);
    kiln_kernel_unref(kernel);
    return rc;
}

static struct kiln_client *open_client(struct kiln_error *err)
{
    struct kiln_client_options options = { .size = sizeof(options), .table_entries = -1 };
    struct kiln_client *client = NULL;
    kiln_client_open(&options, &client, err);
    return client;
}

static void look(struct kiln_client *client, struct seen *seen)
{
    struct kiln_status status = { .size = sizeof(status) };
    if (kiln_client_status(client, &status, NULL))
        return;
    snprintf(seen->reason, sizeof(seen->reason), "%s", status.reason);
    atomic_store(&seen->server, status.daemon_pid);
    atomic_store(&seen->rung, status.rung);
}

struct turn {
    struct shared *shared;
    unsigned had;
};

static bool may_go_on(void *context)
{
    const struct turn *turn = context;
    return atomic_load(&turn->shared->allowed) > turn->had;
}

/* While it may have no more new ones it asks for old ones, as a job does between its steps. */
static int work_through(struct shared *shared, struct seen *seen, struct kiln_client *client)
{
    struct kiln_error err = { 0 };
    struct turn turn = { shared, 0 };
    for (;;) {
        while (!may_go_on(&turn) && turn.had > 0 && !fetch(client, turn.had - 1, &err)) {
            look(client, seen);
            usleep(10000);
        }
        if (!err.code && !wait_until(may_go_on, &turn))
            return 2;
        if (!err.code && atomic_load(&shared->allowed) == OVER)
            return 0;
        if (err.code || fetch(client, turn.had, &err)) {
            snprintf(seen->error, sizeof(seen->error), "%s", err.text);
            return 1;
        }
        look(client, seen);
        atomic_store(&seen->had, ++turn.had);
    }
}

static int be_a_job(struct fixture *f, unsigned job)
{
    struct kiln_error err = { 0 };
    in_a_job(f, job);
    struct kiln_client *client = open_client(&err);
    int rc = client ? work_through(f->shared, &f->shared->jobs[job], client) : 1;
    kiln_client_close(client);
    return rc;
}

static void start_jobs(struct fixture *f, unsigned count)
{
    for (; f->jobs < count; f->jobs++) {
        f->pids[f->jobs] = fork();
        assert_true(f->pids[f->jobs] >= 0);
        if (f->pids[f->jobs] == 0)
            _exit(be_a_job(f, f->jobs));
    }
}

/* ---- what they have come to ---- */

static void expect_alive(struct fixture *f)
{
    for (unsigned i = 0; i < f->jobs; i++) {
        int status = 0;
        if (f->pids[i] > 0 && waitpid(f->pids[i], &status, WNOHANG) == f->pids[i]) {
            f->pids[i] = 0;
            fail_msg("job %u ended with wait status %d: '%s'", i, status, f->shared->jobs[i].error);
        }
    }
}

struct wish {
    struct fixture *f;
    int rung;
};

static bool have_all(void *context)
{
    struct fixture *f = ((struct wish *)context)->f;
    unsigned allowed = atomic_load(&f->shared->allowed);
    expect_alive(f);
    for (unsigned i = 0; i < f->jobs; i++) {
        if (f->pids[i] > 0 && atomic_load(&f->shared->jobs[i].had) < allowed)
            return false;
    }
    return true;
}

static bool are_on_rung(void *context)
{
    const struct wish *wish = context;
    struct fixture *f = wish->f;
    expect_alive(f);
    for (unsigned i = 0; i < f->jobs; i++) {
        if (f->pids[i] > 0 && atomic_load(&f->shared->jobs[i].rung) != wish->rung)
            return false;
    }
    return true;
}

static void let_have(struct fixture *f, unsigned kernels)
{
    struct wish wish = { .f = f };
    atomic_store(&f->shared->allowed, kernels);
    assert_true(wait_until(have_all, &wish));
}

static void end_jobs(struct fixture *f)
{
    atomic_store(&f->shared->allowed, OVER);
    for (unsigned i = 0; i < f->jobs; i++) {
        if (f->pids[i] <= 0)
            continue;
        int status = wait_program(f->pids[i]);
        f->pids[i] = 0;
        if (status)
            fail_msg("job %u: status %d, '%s'", i, status, f->shared->jobs[i].error);
    }
}

static const char *stderr_of(struct fixture *f, unsigned job)
{
    static char text[8192];
    char path[256];
    snprintf(path, sizeof(path), "%s/stderr.%u", f->daemon.folder, job);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    assert_true(got >= 0);
    text[got] = '\0';
    return text;
}

static void expect_the_notice_alone(struct fixture *f, unsigned job, const char *place)
{
    const char *text = stderr_of(f, job);
    const char *end = strchr(text, '\n');
    if (!end || end[1] || strncmp(text, "kiln: no kilnd at '", 19) != 0)
        fail_msg("job %u has on its standard error: '%s'", job, text);
    assert_says(text, place);
    assert_says(text, "KILN_FALLBACK=off");
}

static void expect_sound_store(struct fixture *f)
{
    char path[300];
    sqlite3 *db = NULL;
    sqlite3_stmt *check = NULL;
    snprintf(path, sizeof(path), "%s/kernels.db", f->store);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "pragma integrity_check", -1, &check, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(check), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(check, 0), "ok");
    sqlite3_finalize(check);
    sqlite3_close(db);
}

static unsigned long long leaders_stat(struct fixture *f, const char *name)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/kiln.sock", f->store);
    kilnctl(f, "stats", "--json", "--socket", path);
    if (f->result.status)
        fail_msg("kilnctl stats: %s", f->result.output);
    KILN_AUTO(json) struct json *stats = result_json(&f->result);
    return stats_number(stats, name);
}

static unsigned job_that_serves(const struct fixture *f)
{
    for (unsigned i = 0; i < f->jobs; i++) {
        if (f->pids[i] > 0 && atomic_load(&f->shared->jobs[0].server) == f->pids[i])
            return i;
    }
    fail_msg("no job serves: pid %d does", atomic_load(&f->shared->jobs[0].server));
    return 0;
}

/* ---- several ---- */

static void eight_cold_jobs_share_a_store_and_compile_every_kernel_once(void **state)
{
    struct fixture *f = *state;
    const unsigned kernels = 4;
    start_jobs(f, JOBS_MOST);
    let_have(f, kernels);
    assert_int_equal(leaders_stat(f, "compiles"), kernels);
    assert_int_equal(leaders_stat(f, "quarantined"), 0);
    end_jobs(f);
    for (unsigned i = 0; i < f->jobs; i++) {
        assert_int_equal(atomic_load(&f->shared->jobs[i].rung), KILN_RUNG_EMBEDDED);
        assert_says(f->shared->jobs[i].reason, "no kilnd at");
        assert_says(f->shared->jobs[i].reason, f->store);
        expect_the_notice_alone(f, i, f->store);
    }
    expect_sound_store(f);

    f->jobs = 0; /* what the first have left is there for the next */
    memset(f->shared, 0, sizeof(*f->shared));
    start_jobs(f, 1);
    let_have(f, kernels);
    assert_int_equal(leaders_stat(f, "compiles"), 0);
    assert_int_equal(leaders_stat(f, "hits.disk"), kernels);
    end_jobs(f);
}

static void jobs_outlive_the_one_that_served_and_go_over_to_a_kilnd(void **state)
{
    struct fixture *f = *state;
    struct wish wish = { f, KILN_RUNG_DAEMON };
    start_jobs(f, JOBS_MOST);
    let_have(f, 1);
    unsigned leader = job_that_serves(f);
    atomic_store(&f->shared->allowed, 3); /* and while they are at it: */
    assert_int_equal(kill(f->pids[leader], SIGKILL), 0);
    wait_program(f->pids[leader]);
    f->pids[leader] = 0;
    assert_true(wait_until(have_all, &wish));
    expect_sound_store(f);

    daemon_process_start(&f->daemon);
    assert_true(wait_until(are_on_rung, &wish));
    let_have(f, 5);
    assert_true(daemon_stat(&f->daemon, "fetches") > 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles") >= 2, 1);
    for (unsigned i = 0; i < f->jobs; i++) {
        if (f->pids[i] > 0)
            assert_int_equal(atomic_load(&f->shared->jobs[i].server), f->daemon.pid);
    }
    end_jobs(f);
    expect_sound_store(f);
}

static void a_kilnd_that_stays_away_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct wish wish = { f, KILN_RUNG_EMBEDDED };
    daemon_process_start(&f->daemon);
    start_jobs(f, 1);
    let_have(f, 1);
    assert_int_equal(atomic_load(&f->shared->jobs[0].rung), KILN_RUNG_DAEMON);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    assert_true(wait_until(are_on_rung, &wish));
    end_jobs(f);
    expect_the_notice_alone(f, 0, f->store);
}

/* ---- a job's process is the job's ---- */

/* Runs |body| as a job; its exit status must be 0, else it is the line that failed. */
static void run_as_job(struct fixture *f, int (*body)(struct fixture *f))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        in_a_job(f, 0);
        _exit(body(f));
    }
    int line = wait_program(pid);
    if (line)
        fail_msg("the job failed: step %d, '%s' '%s'", line, f->shared->jobs[0].error,
                 stderr_of(f, 0));
}

#define NEED(step, condition) \
    do {                      \
        if (!(condition))     \
            return (step);    \
    } while (0)

/* Of an engine whose compilers need not be waited for. */
static void without_compilers(void) { setenv("KILN_COMPILER", "/nonexistent/kiln-compiler", 1); }

static int use_once(struct fixture *f)
{
    struct kiln_error err = { 0 };
    without_compilers();
    struct kiln_client *client = open_client(&err);
    bool is_served = client && kiln_client_ping(client, 0, NULL, &err) == 0;
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    if (client)
        look(client, &f->shared->jobs[0]);
    kiln_client_close(client);
    return is_served ? 0 : 1;
}

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

static void a_jobs_signals_umask_and_standard_error_stay_its_own(void **state)
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

static void the_notice_can_be_hidden(void **state)
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

static void a_child_of_fork_has_a_client_of_its_own(void **state)
{
    run_as_job(*state, fork_after_use);
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

static void a_child_that_outlives_a_job_keeps_nothing_locked(void **state)
{
    struct fixture *f = *state;
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the sanitizer takes two tables of descriptors for one\n");
    teardown(state);
    setup(state);
    skip();
#endif
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

/* ---- where there is nothing to build on ---- */

static int without_a_home(struct fixture *f)
{
    unsetenv("HOME");
    return use_once(f);
}

static int with_a_home_of_others(struct fixture *f)
{
    setenv("HOME", "/proc/kiln", 1);
    return use_once(f);
}

static void without_a_home_all_is_in_memory(void **state)
{
    struct fixture *f = *state;
    run_as_job(f, without_a_home);
    assert_says(f->shared->jobs[0].reason, "nothing it compiles is kept");
    assert_says(f->shared->jobs[0].reason, "HOME");
    expect_the_notice_alone(f, 0, "nothing it compiles is kept");
    assert_int_not_equal(access(f->store, F_OK), 0);
}

static void in_a_home_that_cannot_be_written_to_all_is_in_memory(void **state)
{
    struct fixture *f = *state;
    run_as_job(f, with_a_home_of_others);
    assert_says(f->shared->jobs[0].reason, "/proc/kiln");
    expect_the_notice_alone(f, 0, "nothing it compiles is kept");
}

static int without_fallback(struct fixture *f)
{
    struct kiln_error err = { 0 };
    (void)f;
    setenv("KILN_FALLBACK", "off", 1);
    struct kiln_client *client = open_client(&err);
    NEED(1, client);
    NEED(2, fetch(client, 0, &err) == KILN_E_UNAVAILABLE);
    NEED(3, strstr(err.text, "no kilnd at") && !strstr(err.text, "itself"));
    kiln_client_close(client);
    setenv("KILN_FALLBACK", "yes", 1);
    NEED(4, !open_client(&err) && err.code == KILN_E_INVALID);
    NEED(5, strstr(err.text, "KILN_FALLBACK is 'yes'"));
    unsetenv("KILN_FALLBACK");
    struct kiln_client_options options = { .size = sizeof(options), .fallback = "off" };
    NEED(6, kiln_client_open(&options, &client, &err) == 0);
    NEED(7, fetch(client, 0, &err) == KILN_E_UNAVAILABLE);
    kiln_client_close(client);
    return 0;
}

static void who_wants_no_fallback_gets_the_error(void **state)
{
    struct fixture *f = *state;
    run_as_job(f, without_fallback);
    assert_string_equal(stderr_of(f, 0), "");
}

static int without_the_library(struct fixture *f)
{
    struct kiln_error err = { 0 };
    (void)f;
    setenv("KILN_EMBEDDED_LIBRARY", "/nonexistent/libkiln-embedded.so.0", 1);
    struct kiln_client *client = open_client(&err);
    NEED(1, client);
    NEED(2, fetch(client, 0, &err) == KILN_E_UNAVAILABLE);
    NEED(3, strstr(err.text, "no kilnd at"));
    NEED(4, strstr(err.text, "/nonexistent/libkiln-embedded.so.0"));
    kiln_client_close(client);
    return 0;
}

static void without_the_library_the_error_names_both_reasons(void **state)
{
    run_as_job(*state, without_the_library);
}

static int without_a_compiler(struct fixture *f)
{
    struct kiln_error err = { 0 };
    (void)f;
    without_compilers();
    struct kiln_client *client = open_client(&err);
    NEED(1, client && kiln_client_ping(client, 0, NULL, &err) == 0);
    NEED(2, fetch(client, 0, &err) != 0);
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    NEED(3, strstr(err.text, "/nonexistent/kiln-compiler"));
    kiln_client_close(client);
    return 0;
}

static void without_a_compiler_what_needs_one_is_told_so(void **state)
{
    run_as_job(*state, without_a_compiler);
}

#define EMBEDDED_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EMBEDDED_TEST(eight_cold_jobs_share_a_store_and_compile_every_kernel_once),
        EMBEDDED_TEST(jobs_outlive_the_one_that_served_and_go_over_to_a_kilnd),
        EMBEDDED_TEST(a_kilnd_that_stays_away_is_replaced),
        EMBEDDED_TEST(a_jobs_signals_umask_and_standard_error_stay_its_own),
        EMBEDDED_TEST(the_notice_can_be_hidden),
        EMBEDDED_TEST(a_child_of_fork_has_a_client_of_its_own),
        EMBEDDED_TEST(a_child_that_outlives_a_job_keeps_nothing_locked),
        EMBEDDED_TEST(without_a_home_all_is_in_memory),
        EMBEDDED_TEST(in_a_home_that_cannot_be_written_to_all_is_in_memory),
        EMBEDDED_TEST(who_wants_no_fallback_gets_the_error),
        EMBEDDED_TEST(without_the_library_the_error_names_both_reasons),
        EMBEDDED_TEST(without_a_compiler_what_needs_one_is_told_so),
    };
    return cmocka_run_group_tests_name("embedded", tests, NULL, NULL);
}
