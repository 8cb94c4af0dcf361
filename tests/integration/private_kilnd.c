/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "tests/integration/private_job.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <kiln/admin.h>
#include <kiln/kiln.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int start_and_compare(struct fixture *f)
{
    struct kiln_client *client;
    char ours[4096], its[4096];
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, private_ping(f, client, 0) == 0);
    int pid = private_status(client).daemon_pid;
    NEED(3, private_status(client).level == KILN_LEVEL_PRIVATE && pid != getpid());
    NEED(4, strstr(private_status(client).reason, "no kilnd") != NULL);
    NEED(5, strstr(private_status(client).reason, PRIVATE) != NULL);
    NEED(6, getsid(pid) == pid);
    private_read_proc(getpid(), "cgroup", ours, sizeof(ours));
    private_read_proc(pid, "cgroup", its, sizeof(its));
    NEED(7, strcmp(ours, its) == 0);
    private_read_proc(pid, "cmdline", its, sizeof(its));
    NEED(8, strstr(its, "kilnd --private") != NULL);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_job_without_a_kilnd_starts_a_private_one)
{
    struct fixture *f = *state;
    struct stat seen;
    char path[256];
    private_run_job(f, start_and_compare);
    private_path_of(f, PRIVATE, path);
    assert_int_equal(stat(path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    private_path_of(f, PRIVATE "/kernels.db", path);
    assert_int_equal(access(path, F_OK), 0);
    private_path_of(f, "state-home/kiln/private/tuning.db", path);
    assert_int_equal(access(path, F_OK), 0);
}

static int ask_for_the_configuration(struct fixture *f)
{
    struct kiln_client *client;
    const struct kiln_admin_call call = { .size = sizeof(call), .request = "config" };
    char *json = NULL;
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, kiln_admin(client, &call, &json, NULL) == 0);
    const char *socket = strstr(json, "\"socket\"");
    snprintf(f->shared->error, sizeof(f->shared->error), "%s", socket ? socket : json);
    kiln_free(json);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, a_private_kilnd_names_its_own_option_as_the_origin_of_its_socket)
{
    private_run_job(f, ask_for_the_configuration);
    *strchr(f->shared->error, '}') = '\0';
    assert_says(f->shared->error, "\"--private\"");
}

static int ping_twice_with_two_clients(struct fixture *f)
{
    int rc = private_use_once(f);
    return rc ? rc : private_use_once(f);
}

TEST_F(private_kilnd, a_job_prints_one_notice_about_its_private_kilnd)
{
    char path[256];
    private_run_job(f, ping_twice_with_two_clients);
    private_path_of(f, "stderr", path);
    const char *text = test_read_text(path);
    assert_says(text, PRIVATE);
    assert_says(text, "KILN_FALLBACK=off");
    assert_string_equal(strchr(text, '\n'), "\n");
}

static int start_together(struct fixture *f)
{
    struct kiln_client *client;
    int me = atomic_fetch_add(&f->shared->ready, 1);
    NEED(1, private_open_client(f, &client) == 0);
    WAIT_FOR(atomic_load(&f->shared->go));
    NEED(2, private_ping(f, client, 0) == 0);
    atomic_store(&f->shared->servers[me], private_status(client).daemon_pid);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, processes_that_start_together_share_one)
{
    pid_t pids[PRIVATE_RACERS];
    for (int i = 0; i < PRIVATE_RACERS; i++)
        pids[i] = private_start_job(f, start_together);
    WAIT_FOR(atomic_load(&f->shared->ready) >= PRIVATE_RACERS);
    atomic_store(&f->shared->go, 1);
    for (int i = 0; i < PRIVATE_RACERS; i++) {
        int status = wait_program(pids[i]);
        if (status)
            fail_msg("step %d failed: %s", status, f->shared->error);
    }
    for (int i = 0; i < PRIVATE_RACERS; i++)
        assert_int_equal(atomic_load(&f->shared->servers[i]), private_holder_of_lock(f));
}

static int use_in_children(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, private_ping(f, client, 0) == 0);
    int server = private_status(client).daemon_pid;
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(private_use_once(f));
        NEED(3, child > 0 && await_child(child) == 0);
        NEED(4, atomic_load(&f->shared->servers[0]) == server);
    }
    NEED(5, private_ping(f, client, 0) == 0 && private_status(client).reconnects == 0);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_forked_child_is_served_by_its_parents)
{
    private_run_job(*state, use_in_children);
}

static int stay_for_a_while(struct fixture *f)
{
    struct kiln_client *client;
    setenv("KILND_IDLE_EXIT", "1s", 1);
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, private_ping(f, client, 0) == 0);
    int pid = private_status(client).daemon_pid;
    sleep(2); /* waits, because nothing reports that kilnd keeps running */
    NEED(3, kill(pid, 0) == 0);
    NEED(4, private_ping(f, client, 0) == 0 && private_status(client).reconnects == 0);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, a_private_kilnd_ends_some_time_after_its_last_client)
{
    private_run_job(f, stay_for_a_while);
    wait_until("the private kilnd to end", private_has_ended, f);
    private_run_job(f, private_use_once);
}

static int outlive_it(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, private_ping(f, client, 0) == 0);
    int first = private_status(client).daemon_pid;
    for (int i = 0; i < 5; i++) {
        NEED(3, kill(private_status(client).daemon_pid, SIGKILL) == 0);
        NEED(4, private_ping(f, client, 0) == 0);
    }
    NEED(5, private_status(client).daemon_pid != first &&
                private_status(client).level == KILN_LEVEL_PRIVATE);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_killed_private_kilnd_is_replaced) { private_run_job(*state, outlive_it); }

static int lose_the_cache(struct fixture *f)
{
    struct kiln_client *client;
    char path[256];
    NEED(50, private_open_client(f, &client) == 0);
    NEED(51, private_ping(f, client, 0) == 0);
    int first = private_status(client).daemon_pid;
    private_path_of(f, "cache-home", path);
    fs_remove_tree(AT_FDCWD, path);
    int rc = private_use_once(f);
    NEED(rc, rc == 0);
    int second = atomic_load(&f->shared->servers[0]);
    NEED(52, second != first && private_holder_of_lock(f) == second);
    NEED(53, private_ping(f, client, 0) == 0 && private_status(client).daemon_pid == second);
    kiln_client_close(client);
    return 0;
}

TEST(private_kilnd, a_private_kilnd_whose_cache_is_deleted_gives_way_to_another)
{
    private_run_job(*state, lose_the_cache);
}

static int go_over(struct fixture *f)
{
    struct kiln_client *client;
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, private_ping(f, client, 0) == 0 && private_status(client).level == KILN_LEVEL_PRIVATE);
    atomic_store(&f->shared->ready, 1);
    WAIT_FOR(atomic_load(&f->shared->go));
    WAIT_FOR(private_ping(f, client, 0) != 0 || private_status(client).level == KILN_LEVEL_DAEMON);
    NEED(3, private_status(client).level == KILN_LEVEL_DAEMON);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, a_private_kilnd_gives_way_to_a_kilnd_of_the_host)
{
    pid_t job = private_start_job(f, go_over);
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
    int rc = private_use_once(f);
    atomic_store(&f->shared->ready, rc ? -rc : 1);
    pause();
    return 1;
}

/* A batch system ends a job by killing its cgroup. */
TEST_F(private_kilnd, a_private_kilnd_ends_with_the_cgroup_of_its_job)
{
    char group[64], path[128], pid_text[16];
    snprintf(group, sizeof(group), "/sys/fs/cgroup/kiln-test-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/cgroup.kill", group);
    if (mkdir(group, 0755) != 0 || access(path, W_OK) != 0) {
        rmdir(group);
        SKIP("there is no cgroup v2 that this user may make groups in");
    }
    pid_t job = private_start_job(f, wait_to_be_killed);
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
    bool has_gone = holds_in_time(private_has_ended, f);
    WAIT_FOR(rmdir(group) == 0);
    assert_true(is_moved && is_killed && has_gone);
    assert_int_equal(atomic_load(&f->shared->ready), 1);
}

static int use_without_fallback(struct fixture *f)
{
    struct kiln_client *client;
    setenv("KILN_FALLBACK", "off", 1);
    NEED(1, private_open_client(f, &client) == 0);
    NEED(2, private_ping(f, client, 0) == KILN_E_UNAVAILABLE);
    NEED(3, strstr(f->shared->error, "no kilnd") != NULL);
    kiln_client_close(client);
    return 0;
}

TEST_F(private_kilnd, with_fallback_off_there_is_an_error_and_no_process)
{
    char path[256];
    private_run_job(f, use_without_fallback);
    private_path_of(f, PRIVATE, path);
    assert_int_equal(access(path, F_OK), -1);
}

static int fail_with(struct fixture *f, int timeout_ms)
{
    struct kiln_client *client;
    NEED(1, private_open_client(f, &client) == 0);
    int rc = private_ping(f, client, timeout_ms);
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
    private_run_job(f, name_a_wrong_program);
    assert_says(f->shared->error, "KILN_KILND");
    assert_says(f->shared->error, "/nonexistent/kilnd");
    assert_int_equal(private_holder_of_lock(f), 0);
}

static int name_a_relative_program(struct fixture *f)
{
    setenv("KILN_KILND", "bin/kilnd", 1);
    return fail_with(f, 0) ? 0 : 1;
}

TEST_F(private_kilnd, a_relative_kilnd_program_is_refused)
{
    private_run_job(f, name_a_relative_program);
    assert_says(f->shared->error, "KILN_KILND");
    assert_says(f->shared->error, "absolute");
}

static int set_what_is_no_setting(struct fixture *f)
{
    setenv("KILND_WORKERS", "many", 1);
    /* If libkiln waited until its time limit, the code would be KILN_E_TIMED_OUT. */
    return fail_with(f, 0) == KILN_E_IO ? 0 : 30;
}

TEST_F(private_kilnd, a_private_kilnd_that_cannot_start_reports_why)
{
    private_run_job(f, set_what_is_no_setting);
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
    private_path_of(f, "state-home/kiln/private", path);
    struct kiln_err err = KILN_ERR_INIT;
    must(fs_make_directories(path, &err), err);
    private_path_of(f, PRIVATE_LOCK, path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    private_run_job(f, wait_for_the_lock);
    assert_says(f->shared->error, path);
    close(fd);
    private_run_job(f, private_use_once);
}

static int use_without_home(struct fixture *f)
{
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    private_set_variable(f, "TMPDIR", "run");
    int rc = private_use_once(f);
    kill(atomic_load(&f->shared->servers[0]), SIGKILL);
    return rc;
}

TEST_F(private_kilnd, a_home_that_cannot_be_written_to_is_replaced_by_a_temporary_directory)
{
    private_run_job(f, use_without_home);
    assert_says(f->shared->error, "/run/kiln-private-");
    assert_says(f->shared->error, "/proc/nowhere");
}

TEST_F(private_kilnd, a_directory_of_another_user_is_not_used)
{
    char path[256];
    struct kiln_err err = KILN_ERR_INIT;
    NEED_ROOT();
    private_path_of(f, PRIVATE, path);
    must(fs_make_directories(path, &err), err);
    assert_int_equal(chown(path, 12345, 12345), 0);
    private_run_job(f, use_without_home);
    assert_int_equal(rmdir(path), 0);
}
