/* SPDX-License-Identifier: MIT */
#include "tests/integration/host.h"
#include "tests/support/raw_client.h"
#include "tests/support/test_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534
#define SMOKE KILN_SOURCE "/scripts/networks/smoke.txt"

SET_UP_OF(set_up, struct host) { daemon_process_init(&f->daemon); }

FIXTURE_OF(tools, struct host, set_up, NULL);

TEST_F(tools, an_unknown_command_exits_with_two)
{
    run_program(&f->daemon, &f->result, "kilnctl", "no-such-command", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "no-such-command");
}

TEST_F(tools, without_a_daemon_the_exit_status_is_three)
{
    run_program(&f->daemon, &f->result, "kilnctl", "status", NULL);
    assert_int_equal(f->result.status, 3);
    assert_says(f->result.output, "kilnd");
}

TEST_F(tools, without_a_daemon_the_socket_of_a_private_one_is_named)
{
    const char *cache = test_subdirectory(f->daemon.directory, "cache-home");
    const char *path =
        test_path(test_subdirectory(test_subdirectory(cache, "kiln"), "private"), "kilnd.sock");
    test_write_text(path, "");
    run_program(&f->daemon, &f->result, "kilnctl", "status", NULL);
    assert_int_equal(f->result.status, 3);
    assert_says(f->result.output, path);
}

TEST_F(tools, a_command_that_needs_an_administrator_exits_with_four)
{
    need_root();
    daemon_process_start(&f->daemon);
    run_programs_as(&f->daemon, NOBODY);
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0);

    run_program(&f->daemon, &f->result, "kilnctl", "clear", "--all", "--yes", NULL);

    assert_int_equal(f->result.status, 4);
    assert_says(f->result.output, "administrator");
}

TEST_F(tools, a_kernel_that_does_not_exist_exits_with_five)
{
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "kernel", "show", "0123456789abcdef", NULL);
    assert_int_equal(f->result.status, 5);
    assert_says(f->result.output, "0123456789abcdef");
}

TEST_F(tools, the_configuration_is_shown_where_one_is_read)
{
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "config", NULL);
    assert_int_equal(f->result.status, 0);
    assert_says(f->result.output, "hot_limit");
}

static struct json *next_event(FILE *events)
{
    char line[4096];
    struct kiln_err err = KILN_ERR_INIT;
    struct json *event = NULL;
    const char *got;
    IN_TIME(got = fgets(line, sizeof(line), events));
    if (!got)
        fail_msg("kilnctl events ended");
    must(json_parse(bytes_of_text(line), line, &event, &err), err);
    return event;
}

TEST_F(tools, events_report_each_compile_as_it_happens)
{
    int fd;
    daemon_process_start(&f->daemon);
    pid_t listener = start_program(&f->daemon, &fd, "kilnctl", "events", "--json", NULL);
    FILE *events = fdopen(fd, "r");
    assert_non_null(events);
    KILN_AUTO(json) struct json *first = next_event(events);
    assert_string_equal(json_get_text(first, "event", ""), "subscribed");

    run_program(&f->daemon, &f->result, "kilnctl", "prefetch", SMOKE, "--target", "gfx942", NULL);
    assert_int_equal(f->result.status, 0);
    unsigned long long compiles = daemon_stat(&f->daemon, "compiles");
    run_program(&f->daemon, &f->result, "kilnctl", "clear", "--all", "--yes", NULL);
    assert_int_equal(f->result.status, 0);

    assert_true(compiles > 0);
    for (unsigned long long i = 0; i < compiles; i++) {
        KILN_AUTO(json) struct json *event = next_event(events);
        assert_string_equal(json_get_text(event, "event", ""), "compiled");
        assert_string_equal(json_get_text(event, "target", ""), "gfx942");
        assert_int_equal(strlen(json_get_text(event, "key", "")), 64);
    }
    KILN_AUTO(json) struct json *last = next_event(events);
    assert_string_equal(json_get_text(last, "event", ""), "cleared");
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    assert_int_equal(wait_program(listener), 3);
    fclose(events);
}
