/* SPDX-License-Identifier: MIT */
/*
 * Jobs without a kilnd: the engine in their own processes, one of which keeps the user's store for
 * all of them; and where there is nothing to build on.
 */
#include "common/embedded_entry.h"
#include "common/messages.h"
#include "tests/integration/embedded_steps.h"
#include "tests/support/raw_client.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- several ---- */

TEST(embedded, eight_cold_jobs_share_a_store_and_compile_every_kernel_once)
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

TEST(embedded, jobs_outlive_the_one_that_served_and_go_over_to_a_kilnd)
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

TEST(embedded, a_kilnd_that_stays_away_is_replaced)
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

/* ---- one that is stopped ---- */

#define STOPPED 0 /* the job that serves, and is stopped */
#define CAUGHT 1  /* was served by it then */
#define LATER 2   /* begins while it is */
#define LEADER (JOBS_MOST - 1)

static bool may_end(void *context)
{
    const struct fixture *f = context;
    return atomic_load(&f->shared->allowed) == OVER;
}

static bool is_allowed(void *context)
{
    const struct turn *turn = context;
    return atomic_load(&turn->shared->allowed) >= turn->had;
}

static int ask_at_each_step(struct fixture *f, unsigned job, const char *patience_ms)
{
    struct kiln_error err = { 0 };
    struct seen *seen = &f->shared->jobs[job];
    in_a_job(f, job);
    if (job != LEADER)
        without_compilers();
    if (patience_ms)
        setenv("KILN_FALLBACK_PATIENCE", patience_ms, 1);
    struct kiln_client *client = open_client(&err);
    struct turn turn = { f->shared, 0 };
    int rc = client ? 0 : 1;
    while (!rc && atomic_load(&f->shared->allowed) < OVER && wait_until(is_allowed, &turn)) {
        rc = kiln_client_ping(client, 0, NULL, &err);
        look(client, seen);
        atomic_store(&seen->had, ++turn.had);
    }
    snprintf(seen->error, sizeof(seen->error), "%s", err.text);
    kiln_client_close(client);
    return rc ? 1 : 0;
}

static void start_asking(struct fixture *f, unsigned job, const char *patience_ms)
{
    f->pids[job] = fork();
    assert_true(f->pids[job] >= 0);
    if (f->pids[job] == 0)
        _exit(ask_at_each_step(f, job, patience_ms));
    f->jobs = job + 1;
}

struct steps {
    struct fixture *f;
    unsigned job, count;
};

static bool has_done(void *context)
{
    const struct steps *steps = context;
    expect_alive(steps->f);
    return atomic_load(&steps->f->shared->jobs[steps->job].had) >= steps->count;
}

static void expect_steps(struct fixture *f, unsigned job, unsigned count)
{
    if (!wait_until(has_done, &(struct steps){ f, job, count }))
        fail_msg("job %u has done %u of %u", job, atomic_load(&f->shared->jobs[job].had), count);
}

static void stop_job(struct fixture *f, unsigned job)
{
    int status;
    assert_int_equal(kill(f->pids[job], SIGSTOP), 0);
    assert_int_equal(waitpid(f->pids[job], &status, WUNTRACED), f->pids[job]);
    assert_true(WIFSTOPPED(status));
}

static void expect_memory_and_why(struct fixture *f, unsigned job)
{
    const struct seen *seen = &f->shared->jobs[job];
    assert_int_equal(atomic_load(&seen->rung), KILN_RUNG_EMBEDDED);
    assert_int_equal(atomic_load(&seen->server), f->pids[job]);
    assert_says(seen->reason, "nothing it compiles is kept");
    assert_says(stderr_of(f, job), "nothing it compiles is kept");
    assert_says(stderr_of(f, job), "stopped or stuck");
}

/* Its store stays its own: whom it served, and who comes while it is stopped, does without. */
TEST(embedded, a_stopped_job_is_left_alone_and_goes_on_later)
{
    struct fixture *f = *state;
    atomic_store(&f->shared->allowed, 0);
    start_asking(f, STOPPED, NULL);
    expect_steps(f, STOPPED, 1);
    start_asking(f, CAUGHT, "500");
    expect_steps(f, CAUGHT, 1);

    stop_job(f, STOPPED);
    atomic_store(&f->shared->allowed, 1);
    start_asking(f, LATER, "100");
    expect_steps(f, CAUGHT, 2);
    expect_steps(f, LATER, 2);
    expect_memory_and_why(f, CAUGHT);
    expect_memory_and_why(f, LATER);

    assert_int_equal(kill(f->pids[STOPPED], SIGCONT), 0);
    expect_steps(f, STOPPED, 2);
    run_as_job(f, use_once); /* as job 0: it is served again, by the one with the store */
    assert_int_equal(atomic_load(&f->shared->jobs[STOPPED].server), f->pids[STOPPED]);
    assert_says(f->shared->jobs[STOPPED].reason, f->store);
    end_jobs(f);
    expect_sound_store(f);
}

/* ---- with kernels that run ---- */

#define DRIVERS LEADER

static void start_driver(struct fixture *f, unsigned job)
{
    f->pids[job] = fork();
    assert_true(f->pids[job] >= 0);
    if (f->pids[job] > 0)
        return;
    char pocl[256];
    in_a_job(f, job);
    snprintf(pocl, sizeof(pocl), "%s/pocl", f->daemon.folder);
    setenv("POCL_CACHE_DIR", pocl, 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl(KILN_BIN "/kiln-driver", "kiln-driver", "--device", "opencl:0", "conv", "-n", "1", "-c",
          "4", "-H", "8", "-W", "8", "-k", "8", "-y", "3", "-x", "3", "-F", "1", "-S",
          "ConvDirectNaive", NULL);
    _exit(127);
}

static bool has_opencl(struct fixture *f)
{
    run_program(&f->daemon, &f->result, "kiln-driver", "devices", "--json", NULL);
    return strstr(f->result.output, "opencl:0");
}

/* By its duration, which everybody is told. */
static void expect_the_same_compile(struct fixture *f, unsigned job, char first[64])
{
    const char *kernel = strstr(stderr_of(f, job), "\nkernel ");
    const char *compile = kernel ? strstr(kernel, "compile ") : NULL;
    if (!compile)
        fail_msg("driver %u: '%s'", job, stderr_of(f, job));
    if (!first[0])
        snprintf(first, 64, "%.*s", (int)strcspn(compile, "\n"), compile);
    assert_int_equal(strncmp(compile, first, strlen(first)), 0);
}

TEST(embedded, a_kernel_that_eight_jobs_run_at_once_is_compiled_once)
{
    struct fixture *f = *state;
    if (!has_opencl(f)) {
        print_message("skipped: no OpenCL device here: %.200s\n", f->result.output);
        skip();
    }
    f->jobs = DRIVERS;
    for (unsigned job = 0; job < DRIVERS; job++)
        start_driver(f, job);
    char first[64] = "";
    start_asking(f, LEADER, NULL); /* one of eight, that stays; it may lead or follow */
    for (unsigned job = 0; job < DRIVERS; job++) {
        int status = wait_program(f->pids[job]);
        f->pids[job] = 0;
        if (status)
            fail_msg("driver %u: status %d, '%s'", job, status, stderr_of(f, job));
        assert_says(stderr_of(f, job), "Verifies OK");
        assert_says(stderr_of(f, job), f->store);
        expect_the_same_compile(f, job, first);
    }
    end_jobs(f);
    expect_sound_store(f);
    expect_kernels(f, 1);
}

/* ---- in memory alone ---- */

#define HOT_LIMIT 8192 /* two small objects */
#define KERNELS 3

/* Says hello, and who serves. */
static void greet(int fd)
{
    static struct raw_frame welcome;
    BUFFER_AUTO struct buffer body;
    buffer_init(&body, 256);
    const struct message_hello hello = { .oldest_version = FRAME_VERSION_OLDEST,
                                         .newest_version = FRAME_VERSION,
                                         .software = bytes_of_text("test") };
    message_hello_write(&body, &hello);
    raw_send_frame(fd, MESSAGE_hello, 1, buffer_view(&body));
    assert_true(raw_receive(fd, &welcome));
    assert_int_equal(welcome.header.type, MESSAGE_welcome);
}

static void fetch_by(int fd, unsigned n)
{
    static struct raw_frame answer;
    static const char source[] =
        "extern \"C\" __attribute__((global))\n"
        "void scale(float *x) { x[__builtin_amdgcn_workitem_id_x()] *= N; }\n";
    char options[32], text[512] = "";
    snprintf(options, sizeof(options), "-DN=%u", n);
    raw_send_source(fd, 10 + n, "gfx942", options, bytes_of_text(source));
    raw_receive_last(fd, &answer);
    raw_close_descriptors(&answer);
    if (raw_refusal(&answer, text))
        fail_msg("kernel %u: '%s'", n, text);
}

/* A job that has its connection by the library's own door: a limit that small is none of a job's
 * settings. */
static int be_bounded(struct fixture *f)
{
    static const char *const settings[] = { "--hot-limit", "8192", NULL };
    const struct embedded_options options = { .library_folder = KILN_BIN "/../lib",
                                              .memory = true,
                                              .settings = settings };
    struct kiln_err err = KILN_ERR_INIT;
    in_a_job(f, 0);
    void *library = dlopen(KILN_BIN "/../lib/libkiln-embedded.so.0", RTLD_NOW | RTLD_LOCAL);
    const struct embedded_entry *entry = library ? dlsym(library, EMBEDDED_ENTRY_SYMBOL) : NULL;
    int fd = -1;
    NEED(1, entry && entry->connect(&options, &fd, &err) == KILN_OK);
    atomic_store(&f->shared->jobs[0].server, fd);
    atomic_store(&f->shared->jobs[0].had, 1);
    NEED(2, wait_until(may_end, f));
    close(fd);
    entry->let_go();
    entry->settle();
    return 0;
}

/* Its connection, to ask by it what no client asks of a job. */
static int connection_of(struct fixture *f, unsigned job)
{
    int process = pidfd_open(f->pids[job], 0);
    int fd = pidfd_getfd(process, atomic_load(&f->shared->jobs[job].server), 0);
    assert_true(process >= 0 && fd >= 0);
    close(process);
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    return fd;
}

TEST(embedded, what_is_kept_in_memory_is_bounded)
{
    struct fixture *f = *state;
    if (getenv("KILN_TEST_VALGRIND")) { /* scripts/test-valgrind */
        print_message("skipped: valgrind has no pidfd_open\n");
        skip();
    }
    f->pids[0] = fork();
    assert_true(f->pids[0] >= 0);
    if (f->pids[0] == 0)
        _exit(be_bounded(f));
    f->jobs = 1;
    expect_steps(f, 0, 1);
    int fd = connection_of(f, 0);
    greet(fd);
    for (unsigned n = 0; n < KERNELS; n++)
        fetch_by(fd, n);
    fetch_by(fd, 0); /* which had to go, and is made once more */
    KILN_AUTO(json) struct json *stats = raw_ask(fd, MESSAGE_stats, "{}");
    assert_int_equal(stats_number(stats, "compiles"), KERNELS + 1);
    KILN_AUTO(json) struct json *status = raw_ask(fd, MESSAGE_status, "{}");
    const struct json *hot = json_get(status, "hot");
    assert_true(json_get_u64(hot, "bytes", 0) > 0);
    assert_true(json_get_u64(hot, "bytes", 0) <= HOT_LIMIT);
    close(fd);
    end_jobs(f);
}

/* ---- where there is nothing to build on ---- */

/* Nothing is known, and what would be lost is not acknowledged. */
static int measure(struct kiln_client *client, struct kiln_error *err)
{
    const struct kiln_tuning_options options = { .size = sizeof(options),
                                                 .database_id = "gfx90a68" };
    const struct kiln_problem problem = { .size = sizeof(problem),
                                          .spatial_dims = 2,
                                          .n = 1,
                                          .c = 4,
                                          .k = 8,
                                          .groups = 1,
                                          .in = { 1, 8, 8 },
                                          .filter = { 1, 3, 3 },
                                          .stride = { 1, 1, 1 },
                                          .dilation = { 1, 1, 1 } };
    const struct kiln_measurement measured = { .size = sizeof(measured),
                                               .solver = "SolverA",
                                               .algorithm = "miopenConvolutionFwdAlgoDirect",
                                               .median_ms = 0.5,
                                               .samples = 11 };
    const struct kiln_recording recording = { .size = sizeof(recording),
                                              .database_id = "gfx90a68",
                                              .tier = KILN_TUNING_USER,
                                              .measurements = &measured,
                                              .measurement_count = 1 };
    struct kiln_tuned *tuned = NULL;
    NEED(11, kiln_find_get(client, &problem, &options, 0, &tuned, err) == KILN_E_NOT_FOUND);
    NEED(12, kiln_find_put(client, &problem, &recording, 0, err) == KILN_E_UNAVAILABLE);
    NEED(13, strstr(err->text, "no state folder"));
    NEED(14, kiln_find_get(client, &problem, &options, 0, &tuned, err) == KILN_E_NOT_FOUND);
    return 0;
}

static int without_a_home(struct fixture *f)
{
    unsetenv("HOME");
    without_compilers();
    struct kiln_error err = { 0 };
    struct kiln_client *client = open_client(&err);
    int rc = client ? measure(client, &err) : 10;
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    if (client)
        look(client, &f->shared->jobs[0]);
    kiln_client_close(client);
    return rc;
}

static int with_a_home_of_others(struct fixture *f)
{
    setenv("HOME", "/proc/kiln", 1);
    return use_once(f);
}

TEST(embedded, without_a_home_all_is_in_memory)
{
    struct fixture *f = *state;
    run_as_job(f, without_a_home);
    assert_says(f->shared->jobs[0].reason, "nothing it compiles is kept");
    assert_says(f->shared->jobs[0].reason, "HOME");
    expect_the_notice_alone(f, 0, "nothing it compiles is kept");
    assert_int_not_equal(access(f->store, F_OK), 0);
}

TEST(embedded, in_a_home_that_cannot_be_written_to_all_is_in_memory)
{
    struct fixture *f = *state;
    run_as_job(f, with_a_home_of_others);
    assert_says(f->shared->jobs[0].reason, "/proc/kiln");
    expect_the_notice_alone(f, 0, "nothing it compiles is kept");
}

static int with_one_folder_of_two(struct fixture *f)
{
    setenv("XDG_STATE_HOME", "/proc/kiln", 1);
    return use_once(f);
}

TEST(embedded, where_one_folder_cannot_be_written_to_all_is_in_memory)
{
    struct fixture *f = *state;
    run_as_job(f, with_one_folder_of_two);
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

TEST(embedded, who_wants_no_fallback_gets_the_error)
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

TEST(embedded, without_the_library_the_error_names_both_reasons)
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

TEST(embedded, without_a_compiler_what_needs_one_is_told_so)
{
    run_as_job(*state, without_a_compiler);
}
