/* SPDX-License-Identifier: MIT */
/* Jobs on a host without a kilnd, which start a private one.  A job is a separate process with its
 * own home directory. It runs a list of checks, and its exit status is the number of the failed
 * check. */
#include "common/clock.h"
#include "common/fs.h"
#include "tests/support/child.h"
#include "tests/support/daemon_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kiln/admin.h>
#include <kiln/kiln.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RACERS 20
#define PRIVATE "cache-home/kiln/private"
#define LOCK "state-home/kiln/private/private.lock"
#define POLLS_MAX 500 /* polls, every 10 ms */
#define LOOK_US 10000

struct shared { /* by all jobs of a test */
    atomic_int ready, go, servers[RACERS];
    char error[1024];
};

struct fixture {
    struct daemon_process daemon; /* usually not started; provides a directory and a socket */
    struct program_result result;
    struct shared *shared;
};

#define NEED(step, condition) \
    do {                      \
        if (!(condition))     \
            return (step);    \
    } while (0)

static int set_up(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    daemon_process_init(&f.daemon);
    f.shared =
        mmap(NULL, sizeof(*f.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(f.shared != MAP_FAILED);
    *state = &f;
    return 0;
}

static void path_of(const struct fixture *f, const char *below, char path[256])
{
    snprintf(path, 256, "%.90s/%s", f->daemon.directory, below);
}

/* The process id that a private kilnd has written to its lock; 0: no process holds the lock. */
static int holder_of_lock(const struct fixture *f)
{
    char path[256], text[32] = "";
    path_of(f, LOCK, path);
    KILN_AUTO(fd) int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || pread(fd, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    return atoi(text);
}

static bool is_unlocked(void *context) { return holder_of_lock(context) == 0; }

static int tear_down(void **state)
{
    struct fixture *f = *state;
    int pid = holder_of_lock(f);
    if (pid > 1)
        kill(pid, SIGKILL);
    wait_until("the lock of the private kilnd", is_unlocked, f);
    daemon_process_remove(&f->daemon);
    munmap(f->shared, sizeof(*f->shared));
    return 0;
}

FIXTURE(private_kilnd, set_up, tear_down);

/* ---- in a job ---- */

static void set_variable(const struct fixture *f, const char *name, const char *below)
{
    char path[256];
    path_of(f, below, path);
    setenv(name, path, 1);
}

static void be_a_job(const struct fixture *f)
{
    char path[256];
    set_variable(f, "HOME", "home");
    set_variable(f, "XDG_RUNTIME_DIR", "run");
    set_variable(f, "XDG_CACHE_HOME", "cache-home");
    set_variable(f, "XDG_STATE_HOME", "state-home");
    set_variable(f, "XDG_CONFIG_HOME", "config-home");
    setenv("KILN_SOCKET", f->daemon.socket, 1);
    setenv("KILN_FALLBACK", "private", 1);
    setenv("KILND_WORKERS", "1", 1);
    path_of(f, "stderr", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static pid_t start_job(struct fixture *f, int (*body)(struct fixture *f))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be_a_job(f);
    _exit(body(f));
}

static void run_job(struct fixture *f, int (*body)(struct fixture *f))
{
    int status = wait_program(start_job(f, body));
    if (status)
        fail_msg("step %d of the job failed: %s", status, f->shared->error);
}

static int open_client(struct fixture *f, struct kiln_client **ret_client)
{
    struct kiln_error err = { .code = 0 };
    int rc = kiln_client_open(NULL, ret_client, &err);
    snprintf(f->shared->error, sizeof(f->shared->error), "%s", err.text);
    return rc;
}

static int ping_kilnd(struct fixture *f, struct kiln_client *client, int timeout_ms)
{
    struct kiln_error err = { .code = 0 };
    int rc = kiln_client_ping(client, timeout_ms, NULL, &err);
    if (rc)
        snprintf(f->shared->error, sizeof(f->shared->error), "%s", err.text);
    return rc;
}

static struct kiln_status client_status(struct kiln_client *client)
{
    struct kiln_status status = { .size = sizeof(status) };
    kiln_client_status(client, &status, NULL);
    return status;
}

static int use_once(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, open_client(f, &client) == 0);
    NEED(2, ping_kilnd(f, client, 0) == 0);
    struct kiln_status status = client_status(client);
    atomic_store(&f->shared->servers[0], status.daemon_pid);
    snprintf(f->shared->error, sizeof(f->shared->error), "%s", status.reason);
    NEED(3, status.level == KILN_LEVEL_PRIVATE);
    kiln_client_close(client);
    return 0;
}

/* ---- start ---- */

static void read_proc(int pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    for (ssize_t i = 0; i < got - 1; i++)
        text[i] = text[i] ? text[i] : ' ';
}

static int start_and_compare(struct fixture *f)
{
    struct kiln_client *client;
    char ours[4096], its[4096];
    NEED(1, open_client(f, &client) == 0);
    NEED(2, ping_kilnd(f, client, 0) == 0);
    int pid = client_status(client).daemon_pid;
    NEED(3, client_status(client).level == KILN_LEVEL_PRIVATE && pid != getpid());
    NEED(4, strstr(client_status(client).reason, "no kilnd") != NULL);
    NEED(5, strstr(client_status(client).reason, PRIVATE) != NULL);
    NEED(6, getsid(pid) == pid);
    read_proc(getpid(), "cgroup", ours, sizeof(ours));
    read_proc(pid, "cgroup", its, sizeof(its));
    NEED(7, strcmp(ours, its) == 0);
    read_proc(pid, "cmdline", its, sizeof(its));
    NEED(8, strstr(its, "kilnd --private") != NULL);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_job_without_a_kilnd_starts_a_private_one)
{
    struct fixture *f = *state;
    struct stat seen;
    char path[256];
    run_job(f, start_and_compare);
    path_of(f, PRIVATE, path);
    assert_int_equal(stat(path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    path_of(f, PRIVATE "/kernels.db", path);
    assert_int_equal(access(path, F_OK), 0);
    path_of(f, "state-home/kiln/private/tuning.db", path);
    assert_int_equal(access(path, F_OK), 0);
}

static int ask_for_the_configuration(struct fixture *f)
{
    struct kiln_client *client;
    const struct kiln_admin_call call = { .size = sizeof(call), .request = "config" };
    char *json = NULL;
    NEED(1, open_client(f, &client) == 0);
    NEED(2, kiln_admin(client, &call, &json, NULL) == 0);
    const char *socket = strstr(json, "\"socket\"");
    snprintf(f->shared->error, sizeof(f->shared->error), "%s", socket ? socket : json);
    kiln_free(json);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, a_private_kilnd_names_its_own_option_as_the_origin_of_its_socket)
{
    run_job(f, ask_for_the_configuration);
    *strchr(f->shared->error, '}') = '\0';
    assert_says(f->shared->error, "\"--private\"");
}

static int ping_twice_with_two_clients(struct fixture *f)
{
    int rc = use_once(f);
    return rc ? rc : use_once(f);
}

TEST_F(private_kilnd, a_job_prints_one_notice_about_its_private_kilnd)
{
    char path[256];
    run_job(f, ping_twice_with_two_clients);
    path_of(f, "stderr", path);
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer said;
    buffer_init(&said, 65536);
    must(fs_read_file(path, 65536, &said, &err), err);
    buffer_put_u8(&said, 0);
    const char *text = (const char *)said.data;
    assert_says(text, PRIVATE);
    assert_says(text, "KILN_FALLBACK=off");
    assert_string_equal(strchr(text, '\n'), "\n");
}

static int start_together(struct fixture *f)
{
    struct kiln_client *client;
    int me = atomic_fetch_add(&f->shared->ready, 1);
    NEED(1, open_client(f, &client) == 0);
    WAIT_FOR(atomic_load(&f->shared->go));
    NEED(2, ping_kilnd(f, client, 0) == 0);
    atomic_store(&f->shared->servers[me], client_status(client).daemon_pid);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, processes_that_start_together_share_one)
{
    pid_t pids[RACERS];
    for (int i = 0; i < RACERS; i++)
        pids[i] = start_job(f, start_together);
    WAIT_FOR(atomic_load(&f->shared->ready) >= RACERS);
    atomic_store(&f->shared->go, 1);
    for (int i = 0; i < RACERS; i++) {
        int status = wait_program(pids[i]);
        if (status)
            fail_msg("step %d failed: %s", status, f->shared->error);
    }
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(atomic_load(&f->shared->servers[i]), holder_of_lock(f));
}

static int use_in_children(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, open_client(f, &client) == 0);
    NEED(2, ping_kilnd(f, client, 0) == 0);
    int server = client_status(client).daemon_pid;
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(use_once(f));
        NEED(3, child > 0 && await_child(child) == 0);
        NEED(4, atomic_load(&f->shared->servers[0]) == server);
    }
    NEED(5, ping_kilnd(f, client, 0) == 0 && client_status(client).reconnects == 0);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_forked_child_is_served_by_its_parents) { run_job(*state, use_in_children); }

/* ---- effects on the job ---- */

static atomic_int signals_seen, forks_seen;

static void on_child(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

static void on_fork(void) { atomic_fetch_add(&forks_seen, 1); }

struct process_state { /* the state of a job's process */
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
    NEED(1, pipe(pipe_ends) == 0); /* not close-on-exec */
    setenv("NOTIFY_SOCKET", "/nowhere", 1);
    look_at_self(&before);
    NEED(2, open_client(f, &client) == 0);
    NEED(3, ping_kilnd(f, client, 0) == 0);
    int pid = client_status(client).daemon_pid;
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
    read_proc(pid, "environ", text, sizeof(text));
    NEED(7, strstr(text, "NOTIFY_SOCKET") == NULL);
    close(pipe_ends[1]);
    NEED(8, read(pipe_ends[0], text, 1) == 0); /* no other process has the write end */
    kill(pid, SIGKILL);
    NEED(16, holds_in_time(is_unlocked, f));
    NEED(9, waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    NEED(10, atomic_load(&signals_seen) == 0);
    NEED(11, atomic_load(&forks_seen) == 0);
    return 0;
}

TEST(private_kilnd, a_job_notices_nothing_of_a_private_kilnd) { run_job(*state, notice_nothing); }

static int notice_nothing_as_subreaper(struct fixture *f)
{
    NEED(20, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    return notice_nothing(f);
}

TEST(private_kilnd, a_job_that_is_a_subreaper_notices_nothing_of_a_private_kilnd)
{
    run_job(*state, notice_nothing_as_subreaper);
}

/* Returns the field |number| (from 4 on, proc_pid_stat(5)) of a process; 0: it has ended. */
static int stat_field(int pid, int number)
{
    char text[1024];
    read_proc(pid, "stat", text, sizeof(text));
    const char *at = strrchr(text, ')');
    for (int i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? atoi(at + 1) : 0;
}

static int parent_of(int pid) { return stat_field(pid, 4); }

static int use_as_subreaper(struct fixture *f)
{
    NEED(1, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    int rc = use_once(f);
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
    run_job(f, use_as_subreaper);
    wait_until("the process that shares the job's memory", has_another_parent, f);
    assert_int_equal(holder_of_lock(f), atomic_load(&f->shared->servers[0]));
}

static void *use_on_a_thread(void *context)
{
    return (void *)(intptr_t)use_once(context); /* NOLINT(performance-no-int-to-ptr) */
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
    NEED(4, holds_in_time(is_unlocked, f));
    NEED(5, waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    return 0;
}

TEST(private_kilnd, a_subreaper_whose_starting_thread_has_ended_notices_nothing)
{
    run_job(*state, outlive_the_starting_thread);
}

static int block_and_close(struct fixture *f)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGTERM, SIG_IGN);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    return use_once(f);
}

static bool has_ended(void *context) { return is_unlocked(context); }

TEST_F(private_kilnd, sigterm_ends_the_private_kilnd_of_a_job_that_blocks_signals)
{
    run_job(f, block_and_close);
    assert_int_equal(kill(holder_of_lock(f), SIGTERM), 0);
    wait_until("the private kilnd to end", has_ended, f);
}

static void run_unloading_job(struct fixture *f, const char *mode)
{
    pid_t pid = fork();
    if (pid == 0) {
        be_a_job(f);
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

/* ---- exit ---- */

static int stay_for_a_while(struct fixture *f)
{
    struct kiln_client *client;
    setenv("KILND_IDLE_EXIT", "1s", 1);
    NEED(1, open_client(f, &client) == 0);
    NEED(2, ping_kilnd(f, client, 0) == 0);
    int pid = client_status(client).daemon_pid;
    sleep(4);
    NEED(3, kill(pid, 0) == 0); /* a kilnd with a client stays */
    NEED(4, ping_kilnd(f, client, 0) == 0 && client_status(client).reconnects == 0);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, a_private_kilnd_ends_some_time_after_its_last_client)
{
    run_job(f, stay_for_a_while);
    wait_until("the private kilnd to end", has_ended, f);
    run_job(f, use_once); /* the next job starts a new one */
}

static int outlive_it(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, open_client(f, &client) == 0);
    NEED(2, ping_kilnd(f, client, 0) == 0);
    int first = client_status(client).daemon_pid;
    for (int i = 0; i < 5; i++) {
        NEED(3, kill(client_status(client).daemon_pid, SIGKILL) == 0);
        NEED(4, ping_kilnd(f, client, 0) == 0);
    }
    NEED(5, client_status(client).daemon_pid != first &&
                client_status(client).level == KILN_LEVEL_PRIVATE);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_killed_private_kilnd_is_replaced) { run_job(*state, outlive_it); }

static int lose_the_cache(struct fixture *f)
{
    struct kiln_client *client;
    char path[256];
    NEED(50, open_client(f, &client) == 0);
    NEED(51, ping_kilnd(f, client, 0) == 0);
    int first = client_status(client).daemon_pid;
    path_of(f, "cache-home", path);
    fs_remove_tree(AT_FDCWD, path);
    int rc = use_once(f);
    NEED(rc, rc == 0);
    int second = atomic_load(&f->shared->servers[0]);
    NEED(52, second != first && holder_of_lock(f) == second);
    NEED(53, ping_kilnd(f, client, 0) == 0 && client_status(client).daemon_pid == second);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_private_kilnd_whose_cache_is_deleted_gives_way_to_another)
{
    run_job(*state, lose_the_cache);
}

static int go_over(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, open_client(f, &client) == 0);
    NEED(2, ping_kilnd(f, client, 0) == 0 && client_status(client).level == KILN_LEVEL_PRIVATE);
    atomic_store(&f->shared->ready, 1);
    WAIT_FOR(atomic_load(&f->shared->go));
    for (int i = 0; i < POLLS_MAX && client_status(client).level != KILN_LEVEL_DAEMON; i++) {
        NEED(3, ping_kilnd(f, client, 0) == 0);
        usleep(LOOK_US);
    }
    NEED(4, client_status(client).level == KILN_LEVEL_DAEMON);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, a_private_kilnd_gives_way_to_a_kilnd_of_the_host)
{
    pid_t job = start_job(f, go_over);
    WAIT_FOR(atomic_load(&f->shared->ready));
    daemon_process_start(&f->daemon);
    atomic_store(&f->shared->go, 1);
    int status = wait_program(job);
    if (status)
        fail_msg("step %d of the job failed: %s", status, f->shared->error);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
}

static int wait_to_be_killed(struct fixture *f)
{
    int rc = use_once(f);
    atomic_store(&f->shared->ready, rc ? -rc : 1);
    pause();
    return 1;
}

/* Ends the cgroup as a batch system does. */
TEST(private_kilnd, a_private_kilnd_ends_with_the_cgroup_of_its_job)
{
    struct fixture *f = *state;
    char group[64], path[128], pid_text[16];
    snprintf(group, sizeof(group), "/sys/fs/cgroup/kiln-test-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/cgroup.kill", group);
    if (mkdir(group, 0755) != 0 || access(path, W_OK) != 0) {
        rmdir(group);
        print_message("skipped: there is no cgroup v2 that this user may make groups in\n");
        tear_down(state);
        skip();
    }
    pid_t job = start_job(f, wait_to_be_killed);
    snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    snprintf(pid_text, sizeof(pid_text), "%d", (int)job);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_moved = fd >= 0 && write(fd, pid_text, strlen(pid_text)) > 0;
    close(fd);
    if (is_moved)
        WAIT_FOR(atomic_load(&f->shared->ready));
    snprintf(path, sizeof(path), "%s/cgroup.kill", group);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_killed = fd >= 0 && write(fd, "1", 1) == 1;
    close(fd);
    kill(job, SIGKILL);
    wait_program(job);
    bool has_gone = holds_in_time(has_ended, f);
    for (int i = 0; i < POLLS_MAX && rmdir(group) != 0; i++)
        usleep(LOOK_US);
    assert_true(is_moved && is_killed && has_gone);
    assert_int_equal(atomic_load(&f->shared->ready), 1);
}

/* ---- without kilnd ---- */

static int use_without_fallback(struct fixture *f)
{
    struct kiln_client *client;
    setenv("KILN_FALLBACK", "off", 1);
    NEED(1, open_client(f, &client) == 0);
    NEED(2, ping_kilnd(f, client, 0) == KILN_E_UNAVAILABLE);
    NEED(3, strstr(f->shared->error, "no kilnd") != NULL);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, with_fallback_off_there_is_an_error_and_no_process)
{
    char path[256];
    run_job(f, use_without_fallback);
    path_of(f, PRIVATE, path);
    assert_int_equal(access(path, F_OK), -1);
}

static int fail_with(struct fixture *f, int timeout_ms)
{
    struct kiln_client *client;
    NEED(1, open_client(f, &client) == 0);
    int rc = ping_kilnd(f, client, timeout_ms);
    kiln_client_close(client);
    return rc;
}

static int name_a_wrong_program(struct fixture *f)
{
    setenv("KILN_KILND", "/nonexistent/kilnd", 1);
    return fail_with(f, 0) ? 0 : 1;
}

TEST_F(private_kilnd, a_missing_kilnd_program_is_named)
{
    run_job(f, name_a_wrong_program);
    assert_says(f->shared->error, "KILN_KILND");
    assert_says(f->shared->error, "/nonexistent/kilnd");
    assert_int_equal(holder_of_lock(f), 0);
}

static int set_what_is_no_setting(struct fixture *f)
{
    uint64_t begin = clock_monotonic_ns();
    setenv("KILND_WORKERS", "many", 1);
    NEED(30, fail_with(f, 0) == KILN_E_IO);
    NEED(31,
         clock_monotonic_ns() - begin < 30000000000u); /* much less than the time-out of 120 s */
    return 0;
}

TEST_F(private_kilnd, a_private_kilnd_that_cannot_start_reports_why)
{
    run_job(f, set_what_is_no_setting);
    assert_says(f->shared->error, "KILND_WORKERS");
    assert_says(f->shared->error, "kilnd.log");
}

static int wait_for_the_lock(struct fixture *f)
{
    return fail_with(f, 200) == KILN_E_TIMED_OUT ? 0 : 40;
}

TEST_F(private_kilnd, a_lock_without_a_socket_is_waited_for)
{
    char path[256];
    path_of(f, "state-home/kiln/private", path);
    struct kiln_err err = KILN_ERR_INIT;
    must(fs_make_directories(path, &err), err);
    path_of(f, LOCK, path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    run_job(f, wait_for_the_lock);
    assert_says(f->shared->error, path);
    close(fd);
    run_job(f, use_once);
}

static int use_without_home(struct fixture *f)
{
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    set_variable(f, "TMPDIR", "run");
    int rc = use_once(f);
    kill(atomic_load(&f->shared->servers[0]), SIGKILL);
    return rc;
}

TEST_F(private_kilnd, a_home_that_cannot_be_written_to_is_replaced_by_a_temporary_directory)
{
    run_job(f, use_without_home);
    assert_says(f->shared->error, "/run/kiln-private-");
    assert_says(f->shared->error, "/proc/nowhere");
}

TEST(private_kilnd, a_directory_of_another_user_is_not_used)
{
    struct fixture *f = *state;
    char path[256];
    struct kiln_err err = KILN_ERR_INIT;
    if (geteuid() != 0) {
        tear_down(state);
        skip();
    }
    path_of(f, PRIVATE, path);
    must(fs_make_directories(path, &err), err);
    assert_int_equal(chown(path, 12345, 12345), 0);
    run_job(f, use_without_home);
    assert_int_equal(rmdir(path), 0); /* the job created no files */
}
