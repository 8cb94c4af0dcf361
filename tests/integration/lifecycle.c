/* SPDX-License-Identifier: MIT */
#include "tests/integration/host.h"
#include "tests/support/child.h"
#include "tests/support/entries.h"
#include "tests/support/raw_client.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define CHECKS_LEAKS true
#else
#define CHECKS_LEAKS false
#endif

SET_UP_OF(set_up, struct host)
{
    daemon_process_init(&f->daemon);
    assert_int_equal(chmod(f->daemon.directory, 0711), 0);
}

FIXTURE_OF(lifecycle, struct host, set_up, NULL);

static int bound_socket(int type, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    assert_true(strlen(path) < sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, type, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static unsigned count_leftovers(const struct host *f)
{
    char run[256];
    snprintf(run, sizeof(run), "%s/run", f->daemon.directory);
    return entry_count(f->daemon.directory, "kilnd-") + entry_count(run, "kilnd-") +
           (access(f->daemon.socket, F_OK) == 0);
}

static void expect_ping(struct host *f)
{
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0);
}

TEST_F(lifecycle, starts_answers_and_leaves_nothing_behind_at_sigterm)
{
    daemon_process_start(&f->daemon);
    expect_ping(f);
    run_program(&f->daemon, &f->result, "kilnctl", "status", NULL);
    assert_int_equal(f->result.status, 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    assert_int_equal(count_leftovers(f), 0);
}

TEST_F(lifecycle, sigint_ends_kilnd_like_sigterm)
{
    daemon_process_start(&f->daemon);
    assert_int_equal(kill(f->daemon.pid, SIGINT), 0);
    assert_int_equal(daemon_process_wait(&f->daemon), 0);
    assert_int_equal(count_leftovers(f), 0);
}

_Noreturn static void become_daemon(const struct host *f)
{
    char cache[256], state_dir[256];
    snprintf(cache, sizeof(cache), "%s/cache", f->daemon.directory);
    snprintf(state_dir, sizeof(state_dir), "%s/state", f->daemon.directory);
    execl(KILN_BIN "/kilnd", "kilnd", "--socket", f->daemon.socket, "--cache-dir", cache,
          "--state-dir", state_dir, NULL);
    _exit(127);
}

TEST(lifecycle, a_state_directory_on_a_network_filesystem_is_refused)
{
    struct host *f = *state;
    f->daemon.keep_log = true;
    f->daemon.pid = fork();
    if (f->daemon.pid == 0) {
        int fd = open(f->daemon.log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        setenv("LD_PRELOAD", KILN_BIN "/../tests/fake_filesystem.so", 1);
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
        setenv("KILN_TEST_F_TYPE", "0x6969", 1);
        become_daemon(f);
    }
    assert_int_equal(daemon_process_wait(&f->daemon), 1);
    KILN_AUTO(mem) char *text = daemon_process_log(&f->daemon);
    assert_says(text, "nfs");
    assert_says(text, "--state-dir");
    assert_int_equal(count_leftovers(f), 0);
}

/* The signal is pending when kilnd starts, and is delivered when kilnd unblocks it. */
TEST_F(lifecycle, a_pending_stop_signal_stops_a_starting_kilnd_in_order)
{
    if (getenv("KILN_TEST_VALGRIND")) {
        SKIP("valgrind loses a signal that waits when a program starts");
    }
    f->daemon.pid = fork();
    if (f->daemon.pid == 0) {
        sigset_t waiting;
        sigemptyset(&waiting);
        sigaddset(&waiting, SIGTERM);
        sigprocmask(SIG_BLOCK, &waiting, NULL);
        raise(SIGTERM);
        become_daemon(f);
    }
    assert_int_equal(daemon_process_wait(&f->daemon), 0);
    assert_int_equal(count_leftovers(f), 0);
}

/* F_NOTIFY makes Linux send kilnd a signal as soon as kilnd creates the socket's file. */
TEST_F(lifecycle, a_stop_during_the_creation_of_the_socket_leaves_nothing_behind)
{
    int go[2];
    char byte;
    KILN_AUTO(fd) int directory = open(f->daemon.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    f->daemon.pid = fork();
    if (f->daemon.pid == 0) {
        close(go[1]);
        if (read(go[0], &byte, 1) == 0)
            become_daemon(f);
        _exit(126);
    }
    bool reported = fcntl(directory, F_SETOWN, f->daemon.pid) == 0 &&
                    fcntl(directory, F_SETSIG, SIGTERM) == 0 &&
                    fcntl(directory, F_NOTIFY, DN_CREATE) == 0;
    assert_int_equal(reported ? 0 : write(go[1], "", 1), reported ? 0 : 1);
    close(go[0]);
    close(go[1]);
    int status = daemon_process_wait(&f->daemon);
    SKIP_IF(!reported, "the kernel has no dnotify");
    assert_int_equal(status, 0);
    assert_int_equal(count_leftovers(f), 0);
}

TEST_F(lifecycle, a_start_that_fails_says_why_and_leaves_nothing)
{
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--cache-dir",
                "/dev/null", NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "cannot start");
    assert_says(f->result.output, "/dev/null");
    assert_int_equal(count_leftovers(f), 0);
}

TEST_F(lifecycle, a_dead_daemons_socket_is_taken_over)
{
    daemon_process_start(&f->daemon);
    daemon_process_kill(&f->daemon);
    assert_int_equal(access(f->daemon.socket, F_OK), 0);
    daemon_process_start(&f->daemon);
    expect_ping(f);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    assert_int_equal(count_leftovers(f), 0);
}

static void lock_file(const char *directory, const char *suffix)
{
    char path[256];
    snprintf(path, sizeof(path), "%s%s", directory, suffix);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        _exit(1);
}

/* Starts a process that holds kilnd's locks and, if |has_socket|, its listening socket. The process
 * stands for a child that kilnd forked just before it was killed: such a child holds the locks and
 * the socket until it calls exec. */
static pid_t start_holder(const struct host *f, bool has_socket)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        lock_file(f->daemon.cache, "/kilnd.lock");
        if (has_socket) {
            lock_file(f->daemon.socket, ".lock");
            (void)unlink(f->daemon.socket);
            (void)listen(bound_socket(SOCK_STREAM, f->daemon.socket), 16);
        }
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static bool says_that_it_waits(void *context)
{
    const struct host *f = context;
    KILN_AUTO(mem) char *text = daemon_process_log(&f->daemon);
    return strstr(text, "waiting up to 2 s") != NULL;
}

static bool is_pinged(void *context)
{
    struct host *f = context;
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    return f->result.status == 0;
}

/* Called in the child that becomes kilnd. */
static void slow_down_clock(void *context)
{
    (void)context;
    setenv("LD_PRELOAD", KILN_BIN "/../tests/slow_clock.so", 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
}

static void expect_wait_for_holder(struct host *f, bool has_socket)
{
    f->daemon.keep_log = true;
    daemon_process_start(&f->daemon);
    daemon_process_kill(&f->daemon);
    pid_t holder = start_holder(f, has_socket);
    /* kilnd waits for 2 s, which must not pass before the holder is killed. */
    f->daemon.prepare = slow_down_clock;
    daemon_process_begin(&f->daemon);
    wait_until("kilnd to wait for the process", says_that_it_waits, f);
    assert_int_equal(kill(holder, SIGKILL), 0);
    await_child(holder);
    wait_until("kilnd to serve", is_pinged, f);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
}

TEST_F(lifecycle, kilnd_waits_for_a_process_that_has_its_socket_and_locks)
{
    expect_wait_for_holder(f, /* has_socket= */ true);
}

TEST_F(lifecycle, kilnd_waits_for_a_process_that_locks_its_cache)
{
    expect_wait_for_holder(f, /* has_socket= */ false);
}

TEST_F(lifecycle, a_live_daemons_socket_is_refused_with_its_pid)
{
    char pid[32];
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, NULL);
    assert_int_equal(f->result.status, 1);
    snprintf(pid, sizeof(pid), "pid %d", (int)f->daemon.pid);
    assert_says(f->result.output, pid);
    expect_ping(f);
}

TEST_F(lifecycle, a_socket_handed_over_by_systemd_is_used)
{
    int fd = bound_socket(SOCK_STREAM, f->daemon.socket);
    assert_int_equal(listen(fd, 16), 0);
    /* Passes the socket as systemd does: as descriptor 3, with LISTEN_FDS and LISTEN_PID. */
    f->daemon.pid = fork();
    if (f->daemon.pid == 0) {
        char pid[32];
        snprintf(pid, sizeof(pid), "%d", (int)getpid());
        setenv("LISTEN_PID", pid, 1);
        setenv("LISTEN_FDS", "1", 1);
        if (fd != 3)
            dup2(fd, 3);
        else
            fcntl(3, F_SETFD, 0);
        become_daemon(f);
    }
    close(fd);
    expect_ping(f);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    /* only systemd may remove the socket */
    assert_int_equal(access(f->daemon.socket, F_OK), 0);
}

TEST_F(lifecycle, a_kilnd_that_can_accept_no_connection_ends_and_says_why)
{
    SKIP_IF(getenv("KILN_TEST_VALGRIND") || CHECKS_LEAKS,
            "valgrind and the leak check need descriptors of their own");
    f->daemon.keep_log = true;
    daemon_process_start(&f->daemon);
    const struct rlimit none = { .rlim_cur = 3, .rlim_max = 3 };
    assert_int_equal(prlimit(f->daemon.pid, RLIMIT_NOFILE, &none, NULL), 0);
    KILN_AUTO(fd) int fd = raw_connect(&f->daemon);
    assert_true(fd >= 0);
    assert_int_equal(daemon_process_wait(&f->daemon), 1);
    KILN_AUTO(mem) char *text = daemon_process_log(&f->daemon);
    assert_says(text, "exits with status 1");
    assert_int_equal(access(f->daemon.socket, F_OK), -1);
}

TEST_F(lifecycle, an_unknown_setting_is_refused_with_file_and_key)
{
    const char *path = test_path(f->daemon.directory, "kilnd.json");
    test_write_text(path, "{\"workers\": 1, \"colour\": \"blue\"}");
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--config", path,
                NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, path);
    assert_says(f->result.output, "colour");
}

TEST_F(lifecycle, an_unknown_flag_is_refused_by_name)
{
    run_program(&f->daemon, &f->result, "kilnd", "--nonsense", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "'--nonsense'");
}

TEST_F(lifecycle, checking_the_configuration_starts_nothing)
{
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--cache-dir",
                "/somewhere", "--check-config", NULL);
    assert_int_equal(f->result.status, 0);
    assert_says(f->result.output, "flag --cache-dir");
    assert_int_equal(access(f->daemon.socket, F_OK), -1);
}

TEST_F(lifecycle, checking_the_configuration_refuses_what_a_start_refuses)
{
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--fleet", "foo",
                "--check-config", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "flag --fleet");
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--compiler-user",
                "no-such-user", "--check-config", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "'no-such-user'");
}

TEST_F(lifecycle, every_setting_shows_where_it_came_from)
{
    const char *path = test_path(f->daemon.directory, "kilnd.json");
    test_write_text(path, "{\"workers\": 3, \"failure_ttl\": \"5m\"}");
    f->daemon.arguments[0] = "--config";
    f->daemon.arguments[1] = path;
    f->daemon.arguments[2] = "--workers";
    f->daemon.arguments[3] = "1";
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "config", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *config = result_json(&f->result);
    const struct json *workers = json_get(config, "workers");
    const struct json *ttl = json_get(config, "failure_ttl");
    assert_non_null(workers);
    assert_says(json_get_text(workers, "origin", ""), "--workers");
    assert_says(json_get_text(ttl, "origin", ""), path);
    assert_says(json_get_text(json_get(config, "hot_limit"), "origin", ""), "default");
}

static bool has_idle_workers(void *context)
{
    struct host *f = context;
    run_program(&f->daemon, &f->result, "kilnctl", "status", "--json", NULL);
    KILN_AUTO(json) struct json *status = result_json(&f->result);
    return json_get_u64(json_get(status, "workers"), "idle", 0) > 0;
}

TEST_F(lifecycle, the_status_shows_how_compilers_are_confined)
{
    daemon_process_start(&f->daemon);
    wait_until("an idle compiler", has_idle_workers, f);
    KILN_AUTO(json) struct json *status = result_json(&f->result);
    const struct json *workers = json_get(status, "workers");
    assert_true(json_is_bool(json_get(workers, "landlock")));
    assert_string_not_equal(json_get_text(workers, "user", ""), "");
    if (geteuid() == 0)
        assert_int_not_equal(json_get_u64(workers, "uid", 0), 0);
    else
        assert_int_equal(json_get_u64(workers, "uid", 0), geteuid());
}

TEST_F(lifecycle, an_unknown_compiler_user_is_refused_at_the_start)
{
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--compiler-user",
                "no-such-user", NULL);
    assert_int_equal(f->result.status, 1);
    assert_says(f->result.output, "'no-such-user'");
    assert_int_equal(count_leftovers(f), 0);
}

TEST_F(lifecycle, a_compiler_that_cannot_change_its_user_refuses_to_start)
{
    NEED_ROOT();
    const char *path = test_path(f->daemon.directory, "kiln-compiler");
    test_write(path, test_read(KILN_BIN "/kiln-compiler"));
    assert_int_equal(chmod(path, 0700), 0);
    f->daemon.keep_log = true;
    f->daemon.arguments[0] = "--compiler";
    f->daemon.arguments[1] = path;
    daemon_process_start(&f->daemon);

    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--probe", "gfx90a", NULL);

    assert_int_not_equal(f->result.status, 0);
    assert_says(f->result.output, "compiler process");
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    KILN_AUTO(mem) char *log = daemon_process_log(&f->daemon);
    assert_says(log, "may not");
    assert_says(log, "status 4");
}

static bool is_compiling(void *context) { return daemon_stat(context, "compiling") > 0; }

static int connect_waiting_client(struct host *f)
{
    static const char source[] = "extern \"C\" __attribute__((global)) void k() {}";
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "toolchain", "ls", "--probe", "gfx90a", NULL);
    assert_int_equal(f->result.status, 0);
    daemon_process_signal_workers(&f->daemon, SIGSTOP);
    int fd = raw_greeted(&f->daemon);
    raw_send_source(fd, 5, "gfx90a", "", bytes_of_text(source));
    wait_until("a compile to start", is_compiling, &f->daemon);
    return fd;
}

TEST_F(lifecycle, a_client_that_waits_at_sigterm_is_served_first)
{
    static struct raw_frame frame;
    char text[512];
    f->daemon.arguments[0] = "--drain-timeout";
    f->daemon.arguments[1] = "60s";
    KILN_AUTO(fd) int fd = connect_waiting_client(f);

    assert_int_equal(kill(f->daemon.pid, SIGTERM), 0);
    daemon_process_signal_workers(&f->daemon, SIGCONT);

    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_kernels);
    assert_int_equal(frame.header.request_id, 5);
    assert_int_equal(raw_refusal(&frame, text), KILN_OK);
    assert_int_equal(frame.fd_count, 1);
    raw_close_descriptors(&frame);
    raw_expect_closed(fd);
    assert_int_equal(daemon_process_wait(&f->daemon), 0);
    assert_int_equal(count_leftovers(f), 0);
}

TEST_F(lifecycle, a_client_that_waits_beyond_the_drain_limit_is_dropped)
{
    f->daemon.arguments[0] = "--drain-timeout";
    f->daemon.arguments[1] = "100ms";
    KILN_AUTO(fd) int fd = connect_waiting_client(f);

    assert_int_equal(kill(f->daemon.pid, SIGTERM), 0);

    raw_expect_closed(fd);
    assert_int_equal(daemon_process_wait(&f->daemon), 0);
    assert_int_equal(count_leftovers(f), 0);
}
