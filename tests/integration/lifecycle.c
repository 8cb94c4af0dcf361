/* SPDX-License-Identifier: MIT */
/* kilnd as an admin meets it: start, stop, sockets, settings, exit codes. */
#include "tests/support/raw_client.h"

#include "common/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
};

static int setup(void **state)
{
    static struct fixture f;
    daemon_process_init(&f.daemon);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    daemon_process_remove(&f->daemon);
    return 0;
}

static void starts_answers_and_leaves_nothing_behind_at_sigterm(void **state)
{
    struct fixture *f = *state;
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0);
    run_program(&f->daemon, &f->result, "kilnctl", "status", NULL);
    assert_int_equal(f->result.status, 0);
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    assert_int_equal(access(f->daemon.socket, F_OK), -1);
}

static void without_a_daemon_the_exit_status_is_three(void **state)
{
    struct fixture *f = *state;
    run_program(&f->daemon, &f->result, "kilnctl", "status", NULL);
    assert_int_equal(f->result.status, 3);
    assert_says(f->result.output, "kilnd");
    run_program(&f->daemon, &f->result, "kilnctl", "no-such-command", NULL);
    assert_int_equal(f->result.status, 2);
}

static void a_dead_daemons_socket_is_taken_over(void **state)
{
    struct fixture *f = *state;
    daemon_process_start(&f->daemon);
    daemon_process_kill(&f->daemon);
    assert_int_equal(access(f->daemon.socket, F_OK), 0); /* left behind */
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0);
}

static void a_live_daemons_socket_is_refused_with_its_pid(void **state)
{
    struct fixture *f = *state;
    char pid[32];
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, NULL);
    assert_int_not_equal(f->result.status, 0);
    snprintf(pid, sizeof(pid), "%d", (int)f->daemon.pid);
    assert_says(f->result.output, pid);
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0); /* the first is unharmed */
}

static void write_file(const struct fixture *f, const char *name, const char *content,
                       char path[256])
{
    snprintf(path, 256, "%s/%s", f->daemon.folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void an_unknown_setting_is_refused_with_file_and_key(void **state)
{
    struct fixture *f = *state;
    char path[256];
    write_file(f, "kilnd.json", "{\"workers\": 1, \"colour\": \"blue\"}", path);
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--config", path,
                NULL);
    assert_int_not_equal(f->result.status, 0);
    assert_says(f->result.output, path);
    assert_says(f->result.output, "colour");
}

static void every_setting_shows_where_it_came_from(void **state)
{
    struct fixture *f = *state;
    char path[256];
    write_file(f, "kilnd.json", "{\"workers\": 3, \"failure_ttl\": \"5m\"}", path);
    f->daemon.arguments[0] = "--config";
    f->daemon.arguments[1] = path;
    f->daemon.arguments[2] = "--workers";
    f->daemon.arguments[3] = "1";
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "config", "--json", NULL);
    assert_int_equal(f->result.status, 0);
    KILN_AUTO(json) struct json *config = NULL;
    struct kiln_err err = KILN_ERR_INIT;
    must(json_parse(bytes_of_text(f->result.output), "config", &config, &err), err);
    const struct json *workers = json_get(config, "workers");
    const struct json *ttl = json_get(config, "failure_ttl");
    assert_non_null(workers);
    assert_says(json_get_text(workers, "origin", ""), "--workers");
    assert_says(json_get_text(ttl, "origin", ""), path);
    assert_says(json_get_text(json_get(config, "hot_limit"), "origin", ""), "default");
}

static void a_socket_handed_over_by_systemd_is_used(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    assert_true(strlen(f->daemon.socket) < sizeof(address.sun_path));
    strcpy(address.sun_path, f->daemon.socket);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    /* As systemd does: descriptor 3, LISTEN_FDS, LISTEN_PID of the process that is exec'd. */
    f->daemon.pid = fork();
    if (f->daemon.pid == 0) {
        char pid[32], cache[256], state_dir[256];
        snprintf(pid, sizeof(pid), "%d", (int)getpid());
        snprintf(cache, sizeof(cache), "%s/cache", f->daemon.folder);
        snprintf(state_dir, sizeof(state_dir), "%s/state", f->daemon.folder);
        setenv("LISTEN_PID", pid, 1);
        setenv("LISTEN_FDS", "1", 1);
        if (fd != 3)
            dup2(fd, 3);
        else
            fcntl(3, F_SETFD, 0);
        execl(KILN_BIN "/kilnd", "kilnd", "--cache-dir", cache, "--state-dir", state_dir, NULL);
        _exit(127);
    }
    close(fd);
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    assert_int_equal(access(f->daemon.socket, F_OK), 0); /* systemd's, not ours to remove */
}

static void sigterm_while_a_client_waits_still_ends_well(void **state)
{
    struct fixture *f = *state;
    daemon_process_start(&f->daemon);
    int fd = raw_greeted(&f->daemon);
    struct message_fetch_source m = { .target = bytes_of_text("gfx90a"),
                                      .program = bytes_of_text("k.hip"),
                                      .source = bytes_of_text("__global__ void k() {}") };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 1000);
    message_fetch_source_write(&b, &m);
    raw_send_frame(fd, MESSAGE_fetch_source, 5, buffer_view(&b));
    raw_expect_pong(f->daemon.pid ? raw_greeted(&f->daemon) : -1);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    close(fd);
}

#define LIFECYCLE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFECYCLE_TEST(starts_answers_and_leaves_nothing_behind_at_sigterm),
        LIFECYCLE_TEST(without_a_daemon_the_exit_status_is_three),
        LIFECYCLE_TEST(a_dead_daemons_socket_is_taken_over),
        LIFECYCLE_TEST(a_live_daemons_socket_is_refused_with_its_pid),
        LIFECYCLE_TEST(an_unknown_setting_is_refused_with_file_and_key),
        LIFECYCLE_TEST(every_setting_shows_where_it_came_from),
        LIFECYCLE_TEST(a_socket_handed_over_by_systemd_is_used),
        LIFECYCLE_TEST(sigterm_while_a_client_waits_still_ends_well),
    };
    return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
