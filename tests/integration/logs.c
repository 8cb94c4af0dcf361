/* SPDX-License-Identifier: MIT */
/* How a real kilnd writes its log. */
#include "common/fs.h"
#include "tests/support/daemon_process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL "/run/systemd/journal/socket"

struct fixture {
    struct daemon_process daemon;
    struct program_result result;
};

static int setup(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    daemon_process_init(&f.daemon);
    f.daemon.keep_log = true;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    daemon_process_remove(&f->daemon);
    return 0;
}

FIXTURE(logs, setup, teardown);

/* All that it wrote until it stopped; owned by the caller. */
static char *log_of_a_life(struct fixture *f)
{
    char path[256];
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer log;
    buffer_init(&log, 1u << 20);
    daemon_process_start(&f->daemon);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    snprintf(path, sizeof(path), "%s/kilnd.log", f->daemon.directory);
    must(fs_read_file(path, 1u << 20, &log, &err), err);
    return bytes_to_text(buffer_view(&log));
}

TEST(logs, as_text_each_line_begins_with_its_level)
{
    struct fixture *f = *state;
    KILN_AUTO(mem) char *log = log_of_a_life(f);
    assert_says(log, "info: kilnd ");
    assert_says(log, "info: stopping: ");
    assert_says(log, "info: stopped\n");
}

TEST(logs, as_json_each_line_is_an_object_with_an_id)
{
    struct fixture *f = *state;
    unsigned lines = 0;
    char *rest = NULL;
    f->daemon.arguments[0] = "--log-format=json";
    KILN_AUTO(mem) char *log = log_of_a_life(f);
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

/* As systemd does: the variable names what standard error is. */
static void name_the_stream(void *context)
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

TEST(logs, a_stream_of_a_journal_that_cannot_be_reached_gets_lines_with_priorities)
{
    struct fixture *f = *state;
    if (access(JOURNAL, F_OK) == 0)
        skip(); /* here it can be reached */
    f->daemon.prepare = name_the_stream;
    KILN_AUTO(mem) char *log = log_of_a_life(f);
    assert_says(log, "<4>cannot reach");
    assert_says(log, "<6>kilnd ");
    assert_says(log, "<6>stopped\n");
}

static void name_another_stream(void *context)
{
    (void)context;
    setenv("JOURNAL_STREAM", "1:1", 1); /* of a parent, whose child writes somewhere else */
}

TEST(logs, a_stream_that_is_not_the_journals_gets_plain_lines)
{
    struct fixture *f = *state;
    f->daemon.prepare = name_another_stream;
    KILN_AUTO(mem) char *log = log_of_a_life(f);
    assert_says(log, "info: stopped\n");
    assert_null(strstr(log, "<6>"));
}

TEST(logs, a_journal_that_is_asked_for_and_not_there_is_a_refusal)
{
    struct fixture *f = *state;
    if (access(JOURNAL, F_OK) == 0)
        skip();
    run_program(&f->daemon, &f->result, "kilnd", "--socket", f->daemon.socket, "--log-format",
                "journal", NULL);
    assert_int_equal(f->result.status, 2);
    assert_says(f->result.output, "'" JOURNAL "'");
    assert_says(f->result.output, "log_format");
}
