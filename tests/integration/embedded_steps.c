/* SPDX-License-Identifier: MIT */
#include "tests/integration/embedded_steps.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int embedded_setup(void **state)
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

int embedded_teardown(void **state)
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

void in_a_job(const struct fixture *f, unsigned job)
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
    setenv("KILN_FALLBACK_PATIENCE", "120000", 1); /* whoever leads may be slow here, and no more */
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

int fetch(struct kiln_client *client, unsigned n, struct kiln_error *err)
{
    char options[32];
    struct kiln_kernel *kernel = NULL;
    struct kiln_kernel_source source = numbered(n, options);
    int rc = kiln_kernel_fetch_source(client, &source, 0, &kernel, err);
    kiln_kernel_unref(kernel);
    return rc;
}

struct kiln_client *open_client(struct kiln_error *err)
{
    struct kiln_client_options options = { .size = sizeof(options), .table_entries = -1 };
    struct kiln_client *client = NULL;
    kiln_client_open(&options, &client, err);
    return client;
}

void look(struct kiln_client *client, struct seen *seen)
{
    struct kiln_status status = { .size = sizeof(status) };
    if (kiln_client_status(client, &status, NULL))
        return;
    snprintf(seen->reason, sizeof(seen->reason), "%s", status.reason);
    atomic_store(&seen->server, status.daemon_pid);
    atomic_store(&seen->rung, status.rung);
}

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

void start_jobs(struct fixture *f, unsigned count)
{
    for (; f->jobs < count; f->jobs++) {
        f->pids[f->jobs] = fork();
        assert_true(f->pids[f->jobs] >= 0);
        if (f->pids[f->jobs] == 0)
            _exit(be_a_job(f, f->jobs));
    }
}

/* ---- what they have come to ---- */

void expect_alive(struct fixture *f)
{
    for (unsigned i = 0; i < f->jobs; i++) {
        int status = 0;
        if (f->pids[i] > 0 && waitpid(f->pids[i], &status, WNOHANG) == f->pids[i]) {
            f->pids[i] = 0;
            fail_msg("job %u ended with wait status %d: '%s'", i, status, f->shared->jobs[i].error);
        }
    }
}

bool have_all(void *context)
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

bool are_on_rung(void *context)
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

void let_have(struct fixture *f, unsigned kernels)
{
    struct wish wish = { .f = f };
    atomic_store(&f->shared->allowed, kernels);
    assert_true(wait_until(have_all, &wish));
}

void end_jobs(struct fixture *f)
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

const char *stderr_of(struct fixture *f, unsigned job)
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

void expect_the_notice_alone(struct fixture *f, unsigned job, const char *place)
{
    const char *text = stderr_of(f, job);
    const char *end = strchr(text, '\n');
    if (!end || end[1] || strncmp(text, "kiln: no kilnd at '", 19) != 0)
        fail_msg("job %u has on its standard error: '%s'", job, text);
    assert_says(text, place);
    assert_says(text, "KILN_FALLBACK=off");
}

/* What the store's index answers to |question|, a text or a number. */
static void ask_store(struct fixture *f, const char *question, char answer[64])
{
    char path[300];
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    snprintf(path, sizeof(path), "%s/kernels.db", f->store);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, question, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(answer, 64, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

void expect_sound_store(struct fixture *f)
{
    char answer[64];
    ask_store(f, "pragma integrity_check", answer);
    assert_string_equal(answer, "ok");
}

void expect_kernels(struct fixture *f, unsigned count)
{
    char answer[64];
    ask_store(f, "select count(*) from kernel", answer);
    assert_int_equal(atoi(answer), count);
    ask_store(f, "select count(*) from quarantine", answer);
    assert_string_equal(answer, "0");
}

unsigned long long leaders_stat(struct fixture *f, const char *name)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/kiln.sock", f->store);
    kilnctl(f, "stats", "--json", "--socket", path);
    if (f->result.status)
        fail_msg("kilnctl stats: %s", f->result.output);
    KILN_AUTO(json) struct json *stats = result_json(&f->result);
    return stats_number(stats, name);
}

unsigned job_that_serves(const struct fixture *f)
{
    for (unsigned i = 0; i < f->jobs; i++) {
        if (f->pids[i] > 0 && atomic_load(&f->shared->jobs[0].server) == f->pids[i])
            return i;
    }
    fail_msg("no job serves: pid %d does", atomic_load(&f->shared->jobs[0].server));
    return 0;
}

/* ---- one that does one thing ---- */

/* Runs |body| as a job; its exit status must be 0, else it is the line that failed. */
void run_as_job(struct fixture *f, int (*body)(struct fixture *f))
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

/* Of an engine whose compilers need not be waited for. */
void without_compilers(void) { setenv("KILN_COMPILER", "/nonexistent/kiln-compiler", 1); }

int use_once(struct fixture *f)
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
