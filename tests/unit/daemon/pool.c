/* SPDX-License-Identifier: MIT */
#include "tests/unit/daemon/pool_fixture.h"

#include "common/base/cleanup.h"
#include "common/log/log.h"
#include "daemon/loop/spawn.h"
#include "daemon/server/descriptors.h"
#include "tests/support/child.h"
#include "tests/support/children.h"
#include "tests/support/entries.h"
#include "tests/support/launch_service.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static _Atomic pid_t starter;
WRAP(int, spawn_process, const struct loop_spawn *spawn, pid_t *ret_pid)
{
    starter = gettid();
    return __real_spawn_process(spawn, ret_pid);
}

TEST_F(pool, workers_are_started_ahead_of_work)
{
    start_workers(f, 3);
    assert_int_equal(pool_counts(f->pool).worker_starts, 3);
}

static unsigned count_processors(void)
{
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    return (unsigned)CPU_COUNT(&allowed);
}

/* Returns whether all workers are idle. Raises |max_starting| to the number of workers that are
 * starting now, if that is larger. */
static bool all_are_idle(const struct fixture *f, unsigned *max_starting)
{
    struct pool_counts now = pool_counts(f->pool);
    if (now.starting > *max_starting)
        *max_starting = now.starting;
    return now.idle >= f->options.workers;
}

TEST_F(pool, no_more_workers_start_at_once_than_there_are_processors)
{
    unsigned processors = count_processors(), max = processors > 2 ? processors : 2, seen = 0;
    f->options.workers = 3 * max;
    start_pool(f);
    LOOP_UNTIL(f->loop, all_are_idle(f, &seen));
    assert_in_range(seen, 1, max);
    assert_int_equal(pool_counts(f->pool).worker_starts, 3 * max);
}

TEST_F(pool, a_worker_does_several_jobs)
{
    struct job first = kernel("a"), second = kernel("b");
    start_pool(f);

    assert_int_equal(run_job(f, &first)->end, COMPILE_DONE);
    assert_int_equal(run_job(f, &second)->end, COMPILE_DONE);

    assert_int_equal(pool_counts(f->pool).worker_starts, 1);
    assert_true(second.task.result.wall_ns > 0);
}

/* The pool must reserve enough descriptors for each busy worker and for that worker's predecessor,
 * which may still be ending. */
TEST_F(pool, the_descriptors_that_a_worker_needs_are_reserved)
{
    enum { WORKERS = 4, OF_THE_POOL = 1 };
    struct job jobs[WORKERS];
    unsigned before = descriptor_count(getpid()) + OF_THE_POOL;
    start_workers(f, WORKERS);
    unsigned idle = descriptor_count(getpid()) - before;
    for (unsigned i = 0; i < WORKERS; i++) {
        jobs[i] = kernel("hang");
        pool_compile(f->pool, &jobs[i].task);
    }
    LOOP_UNTIL(f->loop, pool_counts(f->pool).busy >= WORKERS);
    unsigned busy = descriptor_count(getpid()) - before;
    assert_int_equal((busy + idle) / WORKERS, DESCRIPTORS_A_WORKER);
    pool_stop(f->pool);
    wait_for_jobs(f, jobs, WORKERS);
}

TEST_F(pool, done_is_never_called_from_within_pool_compile)
{
    struct job job = kernel("a");
    start_workers(f, 1);
    pool_compile(f->pool, &job.task);
    assert_false(job.ended);
    wait_for_job(f, &job);
}

TEST_F(pool, a_crash_costs_one_worker_and_is_reported_with_its_signal)
{
    struct job crash = kernel("crash"), next = kernel("a");
    start_pool(f);

    struct compile_result *result = run_job(f, &crash);

    assert_int_equal(result->end, COMPILE_CRASHED);
    assert_says(result->err.text, "SIGABRT");
    assert_says(result->err.text, "'crash'");
    assert_says(result->err.text, "gfx942");
    assert_int_equal(run_job(f, &next)->end, COMPILE_DONE);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 1);
    assert_int_equal(pool_counts(f->pool).worker_starts, 2);
}

static struct {
    enum log_level level;
    char line[512];
} logged;

static void keep_line(enum log_level level, const char *message)
{
    logged.level = level;
    snprintf(logged.line, sizeof(logged.line), "%s", message);
}

TEST_F(pool, a_probe_that_crashes_is_counted_apart_and_logged_as_information)
{
    struct job crash = job_of("crash", COMPILE_PROBE);
    start_pool(f);
    log_set_sink(keep_line);
    assert_int_equal(run_job(f, &crash)->end, COMPILE_CRASHED);
    log_set_sink(NULL);
    assert_int_equal(logged.level, LOG_LEVEL_INFO);
    assert_says(logged.line, "'hiprtc'");
    assert_says(logged.line, "gfx942");
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    assert_int_equal(pool_counts(f->pool).probe_crashes, 1);
}

TEST(pool, a_worker_that_exits_during_a_job_is_reported_with_its_status)
{
    start_pool(*state);
    expect_end(*state, kernel("exit"), COMPILE_CRASHED, "status 3");
}

TEST_F(pool, a_job_beyond_its_time_is_killed_and_names_the_setting)
{
    struct job next = kernel("a");
    f->options.timeout_ms = 50;
    start_pool(f);

    expect_end(f, kernel("hang"), COMPILE_TIMED_OUT, "compile_timeout");

    assert_int_equal(pool_counts(f->pool).worker_timeouts, 1);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    pool_set_timeout(f->pool, 60000);
    assert_int_equal(run_job(f, &next)->end, COMPILE_DONE);
}

TEST(plain, a_probe_gets_at_least_a_minute)
{
    struct worker_options options = { .timeout_ms = 1000 };
    assert_int_equal(worker_time_ms(&options, COMPILE_KERNEL), 1000);
    assert_int_equal(worker_time_ms(&options, COMPILE_PROBE), 60000);
    assert_int_equal(worker_time_ms(&options, COMPILE_DESCRIBE), 60000);
    options.timeout_ms = 300000;
    assert_int_equal(worker_time_ms(&options, COMPILE_PROBE), 300000);
}

TEST_F(pool, each_exceeded_limit_is_reported_with_its_setting)
{
    static const struct {
        const char *program, *source, *setting;
        enum compile_end end;
    } cases[] = {
        { "cpu", "", "compile_cpu", COMPILE_TIMED_OUT },
        { "output", "", "more than 1MiB (setting compile_output)", COMPILE_OUTPUT },
        { "crash", "eats memory", "compile_memory is 4GiB", COMPILE_MEMORY },
    };
    start_pool(f);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job job = kernel(cases[i].program);
        job.task.job.source = bytes_of_text(cases[i].source);
        expect_end(f, job, cases[i].end, cases[i].setting);
    }
}

TEST_F(pool, a_worker_that_was_killed_from_outside_says_nothing_about_its_kernel)
{
    start_pool(f);
    expect_end(f, kernel("killed"), COMPILE_UNAVAILABLE, "killed");
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

TEST_F(pool, a_compile_can_be_stopped_and_its_worker_is_replaced)
{
    struct job hanging = kernel("hang"), next = kernel("a");
    start_workers(f, 1);
    pool_compile(f->pool, &hanging.task);
    pool_stop_compile(f->pool, &hanging.task);
    wait_for_job(f, &hanging);
    assert_int_equal(hanging.task.result.end, COMPILE_UNAVAILABLE);
    assert_says(hanging.task.result.err.text, "try again");
    assert_int_equal(run_job(f, &next)->end, COMPILE_DONE);
}

TEST_F(pool, a_compile_that_has_no_worker_yet_can_be_stopped)
{
    struct job hanging = kernel("hang"), waiting = kernel("a");
    start_workers(f, 1);
    pool_compile(f->pool, &hanging.task);
    pool_compile(f->pool, &waiting.task);
    pool_stop_compile(f->pool, &waiting.task);
    /* the job's callback runs only after pool_stop_compile has returned */
    assert_false(waiting.ended);
    pool_stop_compile(f->pool, &hanging.task);
    wait_for_job(f, &waiting);
    wait_for_job(f, &hanging);
    assert_int_equal(waiting.task.result.end, COMPILE_UNAVAILABLE);
}

/* The worker must get the limits that open_pool_fixture sets, and the ids of this process's
 * namespaces. */
static void expect_arguments(struct fixture *f)
{
    struct job job = kernel("arguments");
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    struct namespace_ids own;
    char outside[NAMESPACE_TEXT_MAX], wanted[sizeof(last_answer)];
    namespaces_read(&own);
    namespaces_to_text(&own, outside);
    snprintf(wanted, sizeof(wanted),
             "done leads=1 --max-jobs 100 --limits 77,4294967296,1048576 --outside %s", outside);
    assert_string_equal(last_answer, wanted);
}

TEST(pool, a_worker_leads_its_process_group_and_receives_its_limits)
{
    start_pool(*state);
    expect_arguments(*state);
}

static int is_of_kilnd(const struct dirent *entry)
{
    return strncmp(entry->d_name, "kilnd-", 6) == 0;
}

static void set_worker_user(struct fixture *f)
{
    f->options.user = (struct worker_user){ .uid = 4321, .gid = 5432, .other = true };
    strcpy(f->options.user.name, "kiln-worker");
    assert_int_equal(chmod(f->directory, 0711), 0);
}

TEST_F(pool, the_worker_user_owns_the_directory_of_each_worker)
{
    struct job job = kernel("arguments");
    struct stat root, own;
    char path[512];
    if (geteuid() != 0)
        start_pool(f);
    NEED_ROOT();
    set_worker_user(f);
    start_pool(f);

    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);

    assert_says(last_answer, " --user 4321:5432");
    struct dirent **names;
    int count = scandir(f->directory, &names, is_of_kilnd, alphasort);
    assert_int_equal(count, 1);
    snprintf(path, sizeof(path), "%s/%s", f->directory, names[0]->d_name);
    assert_int_equal(stat(path, &root), 0);
    strncat(path, "/worker-1", sizeof(path) - strlen(path) - 1);
    assert_int_equal(stat(path, &own), 0);
    assert_true(root.st_uid == 0 && (root.st_mode & 0777) == 0711);
    assert_true(own.st_uid == 4321 && own.st_gid == 5432 && (own.st_mode & 0777) == 0700);
    free(names[0]);
    free(names);
}

TEST_F(pool, a_directory_that_the_worker_user_may_not_enter_is_refused)
{
    if (geteuid() != 0)
        start_pool(f);
    NEED_ROOT();
    set_worker_user(f);
    assert_int_equal(chmod(f->directory, 0700), 0);

    assert_int_equal(pool_create(&f->options, &f->pool, &f->err), KILN_DENIED);

    assert_says(f->err.text, "'kiln-worker'");
    assert_says(f->err.text, "--temp-dir");
    assert_int_equal(rmdir(f->directory), 0);
    assert_int_equal(mkdir(f->directory, 0711), 0);
    start_pool(f);
}

static struct launch_service unit;

static void start_with_unit(struct fixture *f)
{
    launch_service_start(&unit, f->directory, KILN_LAUNCH, FAKE_WORKER);
    f->options.service = unit.path;
    f->options.program = "/nonexistent";
    f->options.temp_base = "/nonexistent";
    f->options.user = (struct worker_user){ .uid = 12345, .name = "as the unit was" };
    start_pool(f);
}

FIXTURE(unit, set_up, tear_down);

TEST_F(unit, workers_of_a_unit_do_jobs_and_report_their_user)
{
    char uid[16];
    start_with_unit(f);

    expect_arguments(f);

    snprintf(uid, sizeof(uid), "%u", (unsigned)getuid());
    assert_int_equal(pool_confinement(f->pool).user.uid, getuid());
    assert_string_equal(pool_confinement(f->pool).user.name, uid);
}

TEST_F(unit, a_worker_of_a_unit_that_crashes_is_reported_and_replaced)
{
    struct job next = kernel("a");
    start_with_unit(f);
    expect_end(f, kernel("crash"), COMPILE_CRASHED, "SIGABRT");
    assert_int_equal(run_job(f, &next)->end, COMPILE_DONE);
}

TEST_F(unit, a_job_of_a_unit_beyond_its_time_is_killed)
{
    f->options.timeout_ms = 50;
    start_with_unit(f);
    expect_end(f, kernel("hang"), COMPILE_TIMED_OUT, "compile_timeout");
}

TEST_F(unit, a_job_whose_unit_ends_is_unavailable_rather_than_failed)
{
    struct job hang = kernel("hang");
    start_with_unit(f);
    wait_until_idle(f, 1);
    pool_compile(f->pool, &hang.task);
    launch_service_end_units(&unit);
    wait_for_job(f, &hang);
    assert_int_equal(hang.task.result.end, COMPILE_UNAVAILABLE);
    assert_says(hang.task.result.err.text, "service manager");
}

TEST(pool, a_worker_that_sends_no_valid_answer_is_killed)
{
    start_pool(*state);
    expect_end(*state, kernel("nonsense"), COMPILE_CRASHED, "answer");
}

TEST(pool, a_worker_that_hangs_up_is_killed)
{
    start_pool(*state);
    expect_end(*state, kernel("hang up"), COMPILE_CRASHED, "closed its connection");
}

TEST_F(pool, the_answer_of_a_worker_that_then_dies_counts)
{
    struct job job = kernel("answer and die");
    start_pool(f);
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

TEST_F(pool, a_worker_is_replaced_after_its_maximum_of_jobs)
{
    f->options.limits.jobs = 2;
    start_pool(f);
    for (int i = 0; i < 5; i++) {
        struct job job = kernel("a");
        assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    }
    assert_int_equal(pool_counts(f->pool).worker_starts, 3);
}

TEST_F(pool, jobs_beyond_the_workers_wait_in_order)
{
    struct job jobs[5];
    start_pool(f);
    for (int i = 0; i < 5; i++) {
        jobs[i] = kernel("a");
        pool_compile(f->pool, &jobs[i].task);
    }
    assert_int_equal(pool_out(f->pool), 5);
    for (int i = 0; i < 5; i++) {
        wait_for_job(f, &jobs[i]);
        assert_true(i == 4 || !jobs[4].ended);
    }
    assert_int_equal(pool_out(f->pool), 0);
}

static int worker_for(struct fixture *f, const char *toolchain)
{
    struct job job = kernel("pid");
    int pid = 0;
    job.task.job.toolchain = bytes_of_text(toolchain);
    assert_int_equal(run_job(f, &job)->end, COMPILE_DONE);
    assert_int_equal(sscanf(last_answer, "done %d", &pid), 1);
    return pid;
}

TEST_F(pool, a_worker_that_knows_the_toolchain_is_preferred)
{
    start_workers(f, 3);

    int hiprtc = worker_for(f, "hiprtc");
    int clang = worker_for(f, "clang");

    assert_int_not_equal(hiprtc, clang);
    assert_int_equal(worker_for(f, "hiprtc"), hiprtc);
    assert_int_equal(worker_for(f, "clang"), clang);
    assert_int_equal(worker_for(f, "hiprtc"), hiprtc);
}

/* Starting a process may take long, because the starting thread waits until the process has called
 * execve(2). */
TEST_F(pool, no_process_is_started_on_the_loops_thread)
{
    starter = 0;
    start_workers(f, 1);
    assert_int_not_equal(starter, 0);
    assert_int_not_equal(starter, gettid());
}

TEST_F(pool, a_worker_that_is_killed_before_its_process_starts_ends)
{
    start_pool(f);
    LOOP_UNTIL(f->loop, pool_counts(f->pool).worker_starts > 0);
    pool_stop(f->pool);
    struct job late = kernel("a");
    pool_compile(f->pool, &late.task);
    wait_for_job(f, &late);
    assert_int_equal(late.task.result.end, COMPILE_UNAVAILABLE);
}

TEST_F(pool, jobs_fail_when_no_worker_can_be_started)
{
    f->options.program = "/nonexistent/kiln-compiler";
    start_pool(f);
    for (unsigned i = 0; i < 2; i++)
        expect_end(f, kernel("a"), COMPILE_UNAVAILABLE, "'/nonexistent/kiln-compiler'");
}

TEST_F(pool, jobs_fail_when_workers_die_before_they_are_ready)
{
    break_workers("dies");
    start_pool(f);
    expect_end(f, kernel("a"), COMPILE_UNAVAILABLE, "status 5");
    assert_int_equal(pool_counts(f->pool).worker_starts, 3);
}

static void expect_another_build(struct fixture *f, const char *manner, const char *why)
{
    break_workers(manner);
    start_pool(f);
    expect_end(f, kernel("a"), COMPILE_UNAVAILABLE, "(" KILN_VERSION ")");
    expect_end(f, kernel("a"), COMPILE_UNAVAILABLE, why);
}

TEST(pool, a_compiler_with_another_handshake_is_reported_as_another_build)
{
    expect_another_build(*state, "babbles", "handshake");
}

TEST(pool, a_compiler_that_does_not_know_its_flags_is_reported_as_another_build)
{
    expect_another_build(*state, "usage", "flags");
}

TEST_F(pool, the_pool_recovers_when_workers_start_again)
{
    struct job first = kernel("a"), second = kernel("b");
    break_workers("dies");
    start_pool(f);
    assert_int_equal(run_job(f, &first)->end, COMPILE_UNAVAILABLE);

    unsetenv("FAKE_WORKER");
    wait_until_idle(f, 1);

    assert_int_equal(run_job(f, &second)->end, COMPILE_DONE);
}

static void expect_not_given(struct fixture *f, struct job *job, enum kiln_code code)
{
    const struct compile_result *result = &job->task.result;
    wait_for_job(f, job);
    assert_int_equal(result->end, COMPILE_UNAVAILABLE);
    assert_int_equal(result->err.code, code);
    assert_says(result->err.text, "anonymous");
}

/* kilnd itself lacks a resource, so replacing the worker would not help. */
TEST_F(pool, a_job_that_cannot_be_handed_over_fails_and_costs_no_worker)
{
    static const struct {
        int error;
        enum kiln_code code;
    } cases[] = { { EMFILE, KILN_IO }, { ENOMEM, KILN_NO_MEMORY }, { ENOSPC, KILN_FULL } };
    struct job next = kernel("a");
    start_pool(f);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job before = kernel("a"), first = kernel("a"), second = source("a");
        wait_until_idle(f, 1);
        pool_compile(f->pool, &before.task);
        refusal = cases[i].error;
        log_set_sink(keep_line);
        pool_compile(f->pool, &first.task);
        pool_compile(f->pool, &second.task);
        expect_not_given(f, &first, cases[i].code);
        expect_not_given(f, &second, cases[i].code);
        assert_int_equal(before.task.result.end, COMPILE_DONE);
        refusal = 0;
        log_set_sink(NULL);
        assert_string_equal(logged.line, first.task.result.err.text);
    }
    assert_int_equal(run_job(f, &next)->end, COMPILE_DONE);
    assert_int_equal(pool_counts(f->pool).worker_starts, 1);
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
    assert_int_equal(pool_out(f->pool), 0);
}

TEST_F(pool, a_job_that_cannot_be_handed_over_is_reported_when_the_pool_stops)
{
    struct job job = kernel("a");
    start_workers(f, 1);
    refusal = EMFILE;
    pool_compile(f->pool, &job.task);
    assert_false(job.ended);
    pool_stop(f->pool);
    expect_not_given(f, &job, KILN_IO);
}

TEST_F(pool, a_worker_that_is_never_ready_is_given_up)
{
    break_workers("silent");
    f->options.start_timeout_ms = 30;
    start_pool(f);
    expect_end(f, kernel("a"), COMPILE_UNAVAILABLE, "ready within");
}

static void expect_refused(struct fixture *f, const char *program)
{
    expect_end(f, source(program), COMPILE_UNAVAILABLE, "started");
}

/* A worker takes no further job after a client's source. The refused jobs below would need a new
 * worker, and none can start. */
TEST_F(pool, a_job_that_needs_a_fresh_worker_fails_at_once_if_none_can_start)
{
    struct job hang = source("hang"), spends = source("a");
    start_workers(f, 2);
    break_workers("dies");
    pool_compile(f->pool, &hang.task);
    assert_int_equal(run_job(f, &spends)->end, COMPILE_DONE);
    expect_refused(f, "b");
    expect_refused(f, "c");
    assert_false(hang.ended);
    unsetenv("FAKE_WORKER");
    pool_stop(f->pool);
    wait_for_job(f, &hang);
}

TEST_F(pool, no_job_waits_for_a_worker_that_hangs_at_its_start)
{
    struct job first = source("a"), second = source("a");
    f->options.limits.jobs = 1; /* A worker ends after one job, so the pool begins no warm-ups. */
    f->options.start_timeout_ms = 3600000;
    start_workers(f, 2);
    break_workers("silent");
    assert_int_equal(run_job(f, &first)->end, COMPILE_DONE);
    LOOP_UNTIL(f->loop, pool_counts(f->pool).starting != 0 && work_queues_out(f->work_queues) == 0);
    break_workers("dies");
    assert_int_equal(run_job(f, &second)->end, COMPILE_DONE);
    expect_refused(f, "a");
    expect_refused(f, "b");
    assert_in_range(pool_counts(f->pool).starting, 1, 2);
    unsetenv("FAKE_WORKER");
}

static void continue_children(void)
{
    pid_t children[16];
    unsigned count = children_of(getpid(), children, 16);
    for (unsigned i = 0; i < count; i++)
        kill(children[i], SIGCONT);
}

/* A worker can take further jobs after a job of kiln. |next| can therefore wait for the busy
 * worker, although no new worker can start. */
TEST_F(pool, a_job_waits_for_a_worker_that_runs_a_job_of_kiln)
{
    struct job slow = kernel("stop"), spends = source("a"), next = source("b");
    start_workers(f, 2);
    break_workers("dies");
    pool_compile(f->pool, &slow.task);
    assert_int_equal(run_job(f, &spends)->end, COMPILE_DONE);
    pool_compile(f->pool, &next.task);
    LOOP_UNTIL(f->loop, pool_counts(f->pool).worker_starts >= 2 + 4);
    assert_false(next.ended);
    continue_children();
    wait_for_job(f, &next);
    assert_true(slow.ended);
    assert_int_equal(next.task.result.end, COMPILE_DONE);
    unsetenv("FAKE_WORKER");
}

TEST_F(pool, a_stopped_pool_ends_every_job_and_refuses_new_ones)
{
    struct job running = kernel("hang"), waiting = kernel("a"), late = kernel("b");
    start_workers(f, 1);
    pool_compile(f->pool, &running.task);
    pool_compile(f->pool, &waiting.task);

    pool_stop(f->pool);
    pool_compile(f->pool, &late.task);
    wait_for_job(f, &running);
    wait_for_job(f, &waiting);
    wait_for_job(f, &late);

    assert_int_equal(running.task.result.end, COMPILE_UNAVAILABLE);
    assert_int_equal(waiting.task.result.end, COMPILE_UNAVAILABLE);
    assert_says(running.task.result.err.text, "shutting");
    assert_int_equal(pool_counts(f->pool).worker_crashes, 0);
}

/* The worker's child inherits the write end of the pipe, so the pipe stays open until the child
 * ends. */
TEST_F(pool, children_of_a_dead_worker_are_killed_too)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct job job = kernel("orphan");
    start_workers(f, 1);
    close(ends[1]);

    assert_int_equal(run_job(f, &job)->end, COMPILE_CRASHED);

    await_no_writer(ends[0]);
    close(ends[0]);
}

TEST_F(pool, directories_of_a_killed_daemon_are_removed_and_those_of_a_live_one_stay)
{
    char dead[100], unmarked[100], theirs[100], inside[128];
    struct temp_root live;
    struct stat st;
    assert_int_equal(temp_root_open(f->directory, &f->options.user, &live, &f->err), KILN_OK);
    snprintf(dead, sizeof(dead), "%s/kilnd-temp-dead00", f->directory);
    assert_int_equal(mkdir(dead, 0700), 0);
    snprintf(inside, sizeof(inside), "%s/link", dead);
    assert_int_equal(symlink("/etc", inside), 0);
    snprintf(inside, sizeof(inside), "%s/.made-by-kilnd", dead);
    int fd = open(inside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    snprintf(unmarked, sizeof(unmarked), "%s/kilnd-temp-dead01", f->directory);
    /* A killed daemon can leave a directory that it has not marked yet. */
    assert_int_equal(mkdir(unmarked, 0700), 0);
    snprintf(theirs, sizeof(theirs), "%s/kilnd-temp-theirs", f->directory);
    assert_int_equal(mkdir(theirs, 0700), 0);
    snprintf(inside, sizeof(inside), "%s/own", theirs);
    assert_int_equal(mkdir(inside, 0700), 0);

    start_pool(f);

    assert_int_not_equal(lstat(dead, &st), 0);
    assert_int_equal(stat("/etc", &st), 0);
    assert_int_not_equal(lstat(unmarked, &st), 0);
    assert_int_equal(lstat(live.path, &st), 0);
    assert_int_equal(rmdir(inside), 0); /* the pool must not remove another user's directory */
    assert_int_equal(rmdir(theirs), 0);
    temp_root_close(&live);
}
