/* SPDX-License-Identifier: MIT */
#include "daemon/workers/process_stderr.h"

#include "common/log/log.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static char reported[4096];

KILN_PRINTF(3, 4)
WRAP(void, log_event, enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    size_t used = strlen(reported);
    va_list list;
    (void)fields;
    assert_int_equal(event, LOG_EVENT_worker_output);
    va_start(list, fmt);
    used += (size_t)vsnprintf(reported + used, sizeof(reported) - used, fmt, list);
    va_end(list);
    snprintf(reported + used, sizeof(reported) - used, "\n");
}

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct process_stderr output;
    int fd; /* -1 once closed */
    struct kiln_err err;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .output.program = "kiln-compiler", .fd = -1, .err = KILN_ERR_INIT };
    reported[0] = '\0';
    f->loop = open_loop();
    must(process_stderr_open(f->loop, &f->output, &f->owner, &f->fd, &f->err), f->err);
}

static void hang_up(struct fixture *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

TEAR_DOWN(tear_down)
{
    hang_up(f);
    process_stderr_close(&f->output);
}

FIXTURE(output, set_up, tear_down);

static void write_text(const struct fixture *f, const char *text)
{
    assert_int_equal(write(f->fd, text, strlen(text)), strlen(text));
}

TEST_F(output, each_line_of_a_process_is_a_log_record_with_its_name)
{
    write_text(f, "one\n\ntwo\nthr");
    IN_TIME(loop_iteration(f->loop));
    assert_string_equal(reported, "kiln-compiler: one\nkiln-compiler: two\n");
    write_text(f, "ee\n");
    LOOP_UNTIL(f->loop, strstr(reported, "three"));
}

TEST_F(output, an_unfinished_last_line_is_logged_at_the_end)
{
    write_text(f, "cannot enter the directory");
    hang_up(f);
    process_stderr_close(&f->output);
    assert_string_equal(reported, "kiln-compiler: cannot enter the directory\n");
    process_stderr_close(&f->output);
}

TEST_F(output, a_long_line_is_cut_and_the_next_is_whole)
{
    char line[2 * STDERR_LINE_MAX + 1];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    write_text(f, line);
    write_text(f, "\nshort\n");
    IN_TIME(loop_iteration(f->loop));
    const char *end = strchr(reported, '\n');
    assert_int_equal(end - reported,
                     strlen("kiln-compiler: ") + STDERR_LINE_MAX + strlen(" (cut)"));
    assert_string_equal(end + 1, "kiln-compiler: short\n");
}

static unsigned count_reported(const char *what)
{
    unsigned count = 0;
    for (const char *at = reported; (at = strstr(at, what)); at++)
        count++;
    return count;
}

TEST_F(output, most_of_very_many_lines_at_once_are_only_counted)
{
    for (int i = 0; i < 100; i++)
        write_text(f, i % 2 ? "\n\ny" : "y"); /* 51 lines; the last one is unfinished */
    IN_TIME(loop_iteration(f->loop));
    assert_int_equal(count_reported("kiln-compiler: yy\n") + count_reported("kiln-compiler: y\n"),
                     32);
    assert_int_equal(count_reported("omitted"), 1);
    assert_int_equal(count_reported("kiln-compiler: (18 lines omitted)\n"), 1);
    reported[0] = '\0';
    write_text(f, "ou see\n");
    LOOP_UNTIL(f->loop, reported[0]);
    assert_string_equal(reported, "kiln-compiler: you see\n");
}

TEST_F(output, a_process_that_prints_very_much_is_read_in_portions)
{
    static const char zeros[60000];
    int left = 0;
    assert_int_equal(write(f->fd, zeros, sizeof(zeros)), sizeof(zeros));
    IN_TIME(loop_iteration(f->loop));
    assert_int_equal(ioctl(f->fd, FIONREAD, &left), 0);
    assert_true(left > 50000);
    assert_int_equal(f->output.watch.events, 0); /* reading pauses */
    assert_true(loop_timer_is_running(&f->output.pause));
    LOOP_UNTIL(f->loop, ioctl(f->fd, FIONREAD, &left) != 0 || left <= 0);
    assert_string_equal(reported, "");
}

TEST_F(output, a_process_that_hung_up_is_not_watched)
{
    hang_up(f);
    IN_TIME(loop_iteration(f->loop));
    assert_int_equal(f->output.watch.events, 0);
    assert_false(loop_timer_is_running(&f->output.pause));
}
