/* SPDX-License-Identifier: MIT */
#include "tests/integration/private_job.h"
#include "tests/support/wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kiln/admin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int signals_seen, forks_seen;

static void on_child(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

static void on_fork(void) { atomic_fetch_add(&forks_seen, 1); }

struct process_state {
    char files[2048], environment[65536], directory[256];
    sigset_t mask;
    struct sigaction handlers[32];
    mode_t umask;
    int threads;
};

static int count_entries(const char *path, char *names, size_t size)
{
    DIR *dir = opendir(path);
    int count = 0;
    size_t used = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir)); count++) {
        char link[300], to[200] = "";
        snprintf(link, sizeof(link), "%s/%.200s", path, entry->d_name);
        (void)!readlink(link, to, sizeof(to) - 1);
        if (names && used < size && atoi(entry->d_name) != dirfd(dir))
            used += (size_t)snprintf(names + used, size - used, "%s=%s ", entry->d_name, to);
    }
    if (dir)
        closedir(dir);
    return count;
}

static void look_at_self(struct process_state *process_state)
{
    size_t used = 0;
    memset(process_state, 0, sizeof(*process_state));
    count_entries("/proc/self/fd", process_state->files, sizeof(process_state->files));
    for (char **at = environ; *at && used < sizeof(process_state->environment); at++)
        used += (size_t)snprintf(process_state->environment + used,
                                 sizeof(process_state->environment) - used, "%s\n", *at);
    sigprocmask(SIG_SETMASK, NULL, &process_state->mask);
    for (int i = 1; i < 32; i++)
        sigaction(i, NULL, &process_state->handlers[i]);
    process_state->umask = umask(0);
    umask(process_state->umask);
    (void)!getcwd(process_state->directory, sizeof(process_state->directory));
    process_state->threads = count_entries("/proc/self/task", NULL, 0);
}

static int notice_nothing(struct fixture *f)
{
    static struct process_state before, after;
    struct kiln_client *client;
    int status, pipe_ends[2];
    char text[4096];
    atomic_store(&signals_seen, 0);
    signal(SIGCHLD, on_child);
    pthread_atfork(on_fork, NULL, NULL);
    /* These descriptors are not close-on-exec, so kilnd would inherit them if libkiln did not close
     * them. */
    NEED(1, pipe(pipe_ends) == 0);
    setenv("NOTIFY_SOCKET", "/nowhere", 1);
    look_at_self(&before);
    NEED(2, private_open_client(f, &client) == 0);
    NEED(3, private_ping(f, client, 0) == 0);
    int pid = private_status(client).daemon_pid;
    kiln_client_close(client);
    look_at_self(&after);
    NEED(4, strcmp(before.files, after.files) == 0);
    NEED(5, strcmp(before.environment, after.environment) == 0);
    NEED(12, memcmp(&before.mask, &after.mask, sizeof(before.mask)) == 0);
    for (int i = 1; i < 32; i++)
        NEED(13, before.handlers[i].sa_handler == after.handlers[i].sa_handler &&
                     before.handlers[i].sa_flags == after.handlers[i].sa_flags);
    NEED(14, before.umask == after.umask && strcmp(before.directory, after.directory) == 0);
    NEED(15, before.threads == after.threads);
    NEED(6, waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    private_read_proc(pid, "environ", text, sizeof(text));
    NEED(7, strstr(text, "NOTIFY_SOCKET") == NULL);
    close(pipe_ends[1]);
    NEED(8, read(pipe_ends[0], text, 1) == 0);
    kill(pid, SIGKILL);
    NEED(16, holds_in_time(private_has_ended, f));
    NEED(9, waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    NEED(10, atomic_load(&signals_seen) == 0);
    NEED(11, atomic_load(&forks_seen) == 0);
    return 0;
}

TEST(private_kilnd, a_job_notices_nothing_of_a_private_kilnd)
{
    private_run_job(*state, notice_nothing);
}

static int notice_nothing_as_subreaper(struct fixture *f)
{
    NEED(20, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    return notice_nothing(f);
}

TEST(private_kilnd, a_job_that_is_a_subreaper_notices_nothing_of_a_private_kilnd)
{
    private_run_job(*state, notice_nothing_as_subreaper);
}

/* Returns field |number| (4 or more) of /proc/|pid|/stat, or 0 if the process has ended. */
static int stat_field(int pid, int number)
{
    char text[1024];
    private_read_proc(pid, "stat", text, sizeof(text));
    const char *at = strrchr(text, ')');
    for (int i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? atoi(at + 1) : 0;
}

static int parent_of(int pid) { return stat_field(pid, 4); }

static int use_as_subreaper(struct fixture *f)
{
    NEED(1, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    int rc = private_use_once(f);
    NEED(rc, rc == 0);
    int parent = parent_of(atomic_load(&f->shared->servers[0]));
    atomic_store(&f->shared->servers[1], parent);
    NEED(2, parent != getpid() && parent_of(parent) == getpid());
    return 0;
}

static bool has_another_parent(void *context)
{
    struct fixture *f = context;
    return parent_of(atomic_load(&f->shared->servers[0])) != atomic_load(&f->shared->servers[1]);
}

TEST_F(private_kilnd, the_memory_of_a_job_that_is_a_subreaper_is_freed_when_it_ends)
{
    private_run_job(f, use_as_subreaper);
    wait_until("the process that shares the job's memory", has_another_parent, f);
    assert_int_equal(private_holder_of_lock(f), atomic_load(&f->shared->servers[0]));
}

static void *use_on_a_thread(void *context)
{
    return (void *)(intptr_t)private_use_once(context); /* NOLINT(performance-no-int-to-ptr) */
}

static int outlive_the_starting_thread(struct fixture *f)
{
    pthread_t thread;
    void *rc;
    int status;
    NEED(1, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    NEED(2, pthread_create(&thread, NULL, use_on_a_thread, f) == 0);
    await_thread(thread, &rc);
    NEED(3, !rc);
    kill(atomic_load(&f->shared->servers[0]), SIGKILL);
    NEED(4, holds_in_time(private_has_ended, f));
    NEED(5, waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    return 0;
}

TEST(private_kilnd, a_subreaper_whose_starting_thread_has_ended_notices_nothing)
{
    private_run_job(*state, outlive_the_starting_thread);
}

static void lower_soft_limit(__rlimit_resource_t resource, rlim_t limit)
{
    struct rlimit now;
    getrlimit(resource, &now);
    now.rlim_cur = limit;
    setrlimit(resource, &now);
}

static int use_with_few_resources(struct fixture *f)
{
    static const __rlimit_resource_t raised[] = { RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE };
    cpu_set_t before, one, its;
    CPU_ZERO(&one);
    NEED(1, sched_getaffinity(0, sizeof(before), &before) == 0);
    int processor = 0;
    while (!CPU_ISSET(processor, &before))
        processor++;
    CPU_SET(processor, &one);
    NEED(2, sched_setaffinity(0, sizeof(one), &one) == 0);
    lower_soft_limit(RLIMIT_CPU, 1000);
    lower_soft_limit(RLIMIT_FSIZE, 1 << 20);
    lower_soft_limit(RLIMIT_NOFILE, 128);
    NEED(3, setpriority(PRIO_PROCESS, 0, 5) == 0);
    NEED(4, private_use_once(f) == 0);
    pid_t pid = atomic_load(&f->shared->servers[0]);
    NEED(5, sched_getaffinity(pid, sizeof(its), &its) == 0);
    CPU_AND(&its, &its, &before);
    NEED(8, CPU_EQUAL(&its, &before));
    for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++) {
        struct rlimit limit;
        NEED(6, prlimit(pid, raised[i], NULL, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
    }
    bool may_raise = setpriority(PRIO_PROCESS, 0, 0) == 0;
    NEED(7, !may_raise || getpriority(PRIO_PROCESS, (id_t)pid) == 0);
    return 0;
}

TEST(private_kilnd, a_private_kilnd_is_not_limited_to_the_resources_of_its_job)
{
    private_run_job(*state, use_with_few_resources);
}

static int use_with_a_large_environment(struct fixture *f)
{
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof(name), "LARGE_%d", i);
        setenv(name, "", 1);
    }
    unsetenv("KILND_WORKERS");
    setenv("KILND_WORKERS", "3", 1);
    struct kiln_client *client;
    const struct kiln_admin_call call = { .size = sizeof(call), .request = "config" };
    char *json = NULL;
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, kiln_admin(client, &call, &json, NULL) == 0);
    const char *workers = strstr(json, "\"workers\"");
    NEED(3, workers && strncmp(strchr(workers, '{'), "{\"value\":\"3\"", 12) == 0);
    kiln_free(json);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_private_kilnd_gets_all_variables_of_a_large_environment)
{
    private_run_job(*state, use_with_a_large_environment);
}

static int block_and_close(struct fixture *f)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGTERM, SIG_IGN);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    return private_use_once(f);
}

TEST_F(private_kilnd, sigterm_ends_the_private_kilnd_of_a_job_that_blocks_signals)
{
    private_run_job(f, block_and_close);
    assert_int_equal(kill(private_holder_of_lock(f), SIGTERM), 0);
    wait_until("the private kilnd to end", private_has_ended, f);
}

static void run_unloading_job(struct fixture *f, const char *mode)
{
    pid_t pid = fork();
    if (pid == 0) {
        private_be_a_job(f);
        setenv("KILND_IDLE_EXIT", "1s", 1);
        execl(KILN_BIN "/../tests/unloading_job", "unloading_job", KILN_BIN "/../lib/libkiln.so.0",
              mode, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(wait_program(pid), 0);
}

TEST_F(private_kilnd, a_program_that_unloads_libkiln_may_use_it_again)
{
    run_unloading_job(f, NULL);
}

TEST_F(private_kilnd, a_subreaper_that_unloads_libkiln_is_not_harmed)
{
    run_unloading_job(f, "reaper");
}
