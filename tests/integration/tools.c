/* SPDX-License-Identifier: MIT */
/* kilnctl as scripts and admins use it beside a real daemon: exit statuses, events. */
#include "tests/support/raw_client.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534
#define SMOKE KILN_SOURCE "/scripts/networks/smoke.txt"

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

FIXTURE(tools, setup, teardown);

TEST(tools, an_unknown_command_exits_with_two)
{
    struct fixture *f = *state;
    run_program(&f->daemon, &f->result, "kilnctl", "no-such-command", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "no-such-command");
}

TEST(tools, without_a_daemon_the_exit_status_is_three)
{
    struct fixture *f = *state;
    run_program(&f->daemon, &f->result, "kilnctl", "status", NULL);
    assert_int_equal(f->result.status, 3);
    assert_says(f->result.output, "kilnd");
}

/* May user nobody run this build's programs?  A checkout in a closed home forbids it. */
static bool nobody_may_run_programs(struct fixture *f)
{
    f->daemon.user = NOBODY;
    run_program(&f->daemon, &f->result, "kilnctl", "--version", NULL);
    return f->result.status == 0;
}

TEST(tools, a_command_that_needs_an_administrator_exits_with_four)
{
    struct fixture *f = *state;
    if (geteuid() != 0) {
        print_message("skipped: only root can ask as another user\n");
        skip();
    }
    daemon_process_start(&f->daemon);
    assert_int_equal(chmod(f->daemon.directory, 0755), 0);
    assert_int_equal(chmod(f->daemon.socket, 0666), 0);
    if (!nobody_may_run_programs(f)) {
        print_message("skipped: other users cannot run what is in '%s'\n", KILN_BIN);
        skip();
    }
    run_program(&f->daemon, &f->result, "kilnctl", "ping", NULL);
    assert_int_equal(f->result.status, 0); /* to use it is allowed */

    run_program(&f->daemon, &f->result, "kilnctl", "clear", "--all", "--yes", NULL);

    assert_int_equal(f->result.status, 4);
    assert_says(f->result.output, "administrator");
}

TEST(tools, a_kernel_that_does_not_exist_exits_with_five)
{
    struct fixture *f = *state;
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "kernel", "show", "0123456789abcdef", NULL);
    assert_int_equal(f->result.status, 5);
    assert_says(f->result.output, "0123456789abcdef");
}

TEST(tools, the_configuration_is_shown_where_one_is_read)
{
    struct fixture *f = *state;
    daemon_process_start(&f->daemon);
    run_program(&f->daemon, &f->result, "kilnctl", "config", NULL);
    assert_int_equal(f->result.status, 0);
    assert_says(f->result.output, "hot_limit");
}

/* ---- events ---- */

static struct json *next_event(FILE *events)
{
    char line[4096];
    struct kiln_err err = KILN_ERR_INIT;
    struct json *event = NULL;
    if (!fgets(line, sizeof(line), events))
        fail_msg("kilnctl events ended");
    must(json_parse(bytes_of_text(line), line, &event, &err), err);
    return event;
}

TEST(tools, events_report_each_compile_as_it_happens)
{
    struct fixture *f = *state;
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
    assert_int_equal(daemon_process_stop(&f->daemon), 0); /* a listener does not hold it up */
    assert_int_equal(wait_program(listener), 3);
    fclose(events);
}
