/* SPDX-License-Identifier: MIT */
#include "tests/integration/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL "/run/systemd/journal/socket"

SET_UP_OF(set_up, struct host)
{
    daemon_process_init(&f->daemon);
    f->daemon.keep_log = true;
}

FIXTURE_OF(logs, struct host, set_up, NULL);

static char *log_of_one_run(struct host *f)
{
    daemon_process_start(&f->daemon);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    return daemon_process_log(&f->daemon);
}

TEST_F(logs, each_line_of_a_text_log_begins_with_its_level)
{
    KILN_AUTO(mem) char *log = log_of_one_run(f);
    assert_says(log, "info: kilnd ");
    assert_says(log, "info: stopping");
    assert_says(log, "info: stopped\n");
}

TEST_F(logs, each_line_of_a_json_log_is_an_object_with_an_id)
{
    unsigned lines = 0;
    char *rest = NULL;
    f->daemon.arguments[0] = "--log-format=json";
    KILN_AUTO(mem) char *log = log_of_one_run(f);
    for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct kiln_err err = KILN_ERR_INIT;
        KILN_AUTO(json) struct json *json = NULL;
        must(json_parse(bytes_of_text(line), "log", &json, &err), err);
        assert_int_equal(strlen(json_get_text(json, "message_id", "")), 32);
        assert_string_not_equal(json_get_text(json, "event", ""), "");
        assert_string_not_equal(json_get_text(json, "message", ""), "");
        lines++;
    }
    assert_in_range(lines, 3, 100);
}

/* Sets JOURNAL_STREAM as systemd does: to the device and inode of standard error. */
static void set_journal_stream(void *context)
{
    struct stat seen;
    char text[64];
    (void)context;
    if (fstat(STDERR_FILENO, &seen) < 0)
        _exit(126);
    snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)seen.st_dev,
             (unsigned long long)seen.st_ino);
    setenv("JOURNAL_STREAM", text, 1);
}

TEST_F(logs, a_stream_of_an_unreachable_journal_gets_lines_with_priorities)
{
    SKIP_IF(access(JOURNAL, F_OK) == 0, "this host has journald");
    f->daemon.prepare = set_journal_stream;
    KILN_AUTO(mem) char *log = log_of_one_run(f);
    assert_says(log, "<4>cannot reach");
    assert_says(log, "<6>kilnd ");
    assert_says(log, "<6>stopped\n");
}

/* Checks the fields by which kilnctl doctor finds the record in the journal. */
TEST_F(logs, a_refused_configuration_is_reported_to_the_journal)
{
    SKIP_IF(access(JOURNAL, F_OK) == 0, "this host has journald");
    f->daemon.prepare = set_journal_stream;
    f->daemon.arguments[0] = "--hot-limit=much";
    daemon_process_begin(&f->daemon);
    assert_int_equal(daemon_process_wait(&f->daemon), 2);
    KILN_AUTO(mem) char *log = daemon_process_log(&f->daemon);
    assert_says(log, "<4>cannot reach");
    assert_says(log, "<3>");
    assert_says(log, "hot-limit");
}

static void name_another_stream(void *context)
{
    (void)context;
    /* Acts as if JOURNAL_STREAM came from a parent with another standard error. */
    setenv("JOURNAL_STREAM", "1:1", 1);
}

TEST_F(logs, a_stream_that_is_not_a_journal_gets_plain_lines)
{
    f->daemon.prepare = name_another_stream;
    KILN_AUTO(mem) char *log = log_of_one_run(f);
    assert_says(log, "info: stopped\n");
    assert_null(strstr(log, "<6>"));
}

TEST_F(logs, a_configured_journal_that_is_absent_is_refused)
{
    SKIP_IF(access(JOURNAL, F_OK) == 0, "this host has journald");
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--log-format",
                "journal", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "'" JOURNAL "'");
    assert_says(f->result.output, "log_format");
}
