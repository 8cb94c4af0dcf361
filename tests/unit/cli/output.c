/* SPDX-License-Identifier: MIT */
#include "cli/output.h"
#include "cli/exit_status.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND ((uint64_t)1000000000)

/* |out| is a file, so isatty() is false for it. */
struct fixture {
    FILE *out;
    char text[8192];
};

SET_UP(set_up) { f->out = test_file(); }

FIXTURE(output, set_up, NULL);

static const char *read_printed(struct fixture *f)
{
    fflush(f->out);
    rewind(f->out);
    size_t size = fread(f->text, 1, sizeof(f->text) - 1, f->out);
    f->text[size] = '\0';
    return f->text;
}

TEST_F(output, columns_are_as_wide_as_their_widest_cell)
{
    static const struct column columns[] = { { "NAME", ALIGN_LEFT }, { "SIZE", ALIGN_RIGHT } };
    struct kiln_error err = { 0 };
    struct table *table = table_create(columns, 2);
    table_cell(table, "%s", "conv");
    table_cell(table, "%d", 7);
    table_cell_in(table, COLOUR_RED, "%s", "caf\xc3\xa9 au lait");
    table_cell(table, "%d", 123456);

    assert_int_equal(table_print(table, f->out, &err), KILN_E_OK);

    assert_string_equal(read_printed(f), "NAME            SIZE\n"
                                         "conv               7\n"
                                         "caf\xc3\xa9 au lait  123456\n");
    table_destroy(table);
}

TEST_F(output, a_table_without_memory_says_so)
{
    struct kiln_error err = { 0 };
    table_cell(NULL, "%s", "lost");
    assert_int_equal(table_print(NULL, f->out, &err), KILN_E_NO_MEMORY);
    assert_string_equal(read_printed(f), "");
}

TEST(output, control_characters_from_elsewhere_do_not_reach_the_terminal)
{
    char text[] = "a\033[31mb\x7f\xc2\x9b"
                  "c\nd\te\x9b"
                  "31m\xc3\xa9";
    output_clean(text, false);
    assert_string_equal(text, "a?[31mb???c?d?e?31m\xc3\xa9");
}

TEST_F(output, lines_may_be_kept_while_cleaning)
{
    output_lines(f->out, "| ", "one\ntwo\033]0;x\007\n\nthree");
    assert_string_equal(read_printed(f), "| one\n| two?]0;x?\n| three\n");
}

TEST_F(output, lines_are_printed_without_further_memory)
{
    fail_calls("strdup", ENOMEM);
    output_lines(f->out, "| ", "\tone\xc2\x9b\n\xc3\xa9\xff\n");
    calls_failed();
    assert_string_equal(read_printed(f), "| \tone??\n| \xc3\xa9?\n");
}

TEST_F(output, output_to_a_file_has_no_colours) { assert_false(output_has_colour(f->out)); }

TEST_F(output, an_error_names_program_message_log_and_advice)
{
    struct kiln_error err = { .code = KILN_E_COMPILE_FAILED,
                              .text = "clang refused 'x.c'",
                              .log = "x.c:1: no\nx.c:2: no" };
    output_error(f->out, "kilnctl", &err, "mend it");
    assert_string_equal(read_printed(f),
                        "kilnctl: clang refused 'x.c'\n  | x.c:1: no\n  | x.c:2: no\n"
                        "kilnctl: mend it\n");
}

TEST_F(output, progress_prints_plain_lines_each_tenth_elsewhere_than_on_a_terminal)
{
    struct progress progress;
    size_t lines = 0;
    progress_init(&progress, f->out, "prefetch", 69, SECOND);
    for (unsigned done = 1; done <= 69; done++)
        progress_update(&progress, done, done > 60, SECOND + (uint64_t)done * SECOND / 2);
    progress_clear(&progress);

    const char *text = read_printed(f);

    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 10);
    assert_null(strpbrk(text, "\r\033"));
    assert_non_null(strstr(text, "prefetch: 7 of 69 done, 3.50 s\n"));
    assert_non_null(strstr(text, "prefetch: 69 of 69 done, 1 failed, 34.5 s\n"));
}

TEST_F(output, progress_says_after_ten_silent_seconds_that_it_goes_on)
{
    struct progress progress;
    progress_init(&progress, f->out, "prefetch", 69, SECOND);
    progress_tick(&progress, 10 * SECOND);
    progress_tick(&progress, 11 * SECOND);
    progress_tick(&progress, 12 * SECOND);
    progress_update(&progress, 1, 1, 21 * SECOND);
    progress_update(&progress, 69, 1, 22 * SECOND);
    progress_tick(&progress, 60 * SECOND);
    assert_string_equal(read_printed(f), "prefetch: 0 of 69 done, 10.0 s\n"
                                         "prefetch: 1 of 69 done, 1 failed, 20.0 s\n"
                                         "prefetch: 69 of 69 done, 1 failed, 21.0 s\n");
}

TEST_F(output, progress_without_a_total_says_so_too)
{
    struct progress progress;
    progress_init(&progress, f->out, "scanning", 0, 0);
    progress.no_total = true;
    progress_update(&progress, 7, 0, SECOND);
    progress_tick(&progress, 10 * SECOND);
    assert_string_equal(read_printed(f), "scanning: 7 done, 10.0 s\n");
}

TEST_F(output, a_tick_redraws_a_bar_only_while_it_is_shown)
{
    struct progress progress;
    progress_init(&progress, f->out, "prefetch", 2, 0);
    progress.width = 80;
    progress_tick(&progress, SECOND);
    progress_update(&progress, 1, 0, 2 * SECOND);
    progress_tick(&progress, 3 * SECOND);
    progress_clear(&progress);
    progress_tick(&progress, 4 * SECOND);
    assert_string_equal(read_printed(f),
                        "\r\033[Kprefetch [###############...............] 1/2, 2.00 s left"
                        "\r\033[Kprefetch [###############...............] 1/2, 3.00 s left"
                        "\r\033[K");
}

static bool has_said(void *context)
{
    struct ticker *ticker = context;
    pthread_mutex_lock(ticker->lock);
    bool said = ticker->progress->said_ns > 0;
    pthread_mutex_unlock(ticker->lock);
    return said;
}

TEST_F(output, a_ticker_calls_until_it_is_stopped)
{
    struct ticker ticker;
    struct progress progress;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    /* With a start time of 0, the first tick is overdue and prints at once. */
    progress_init(&progress, f->out, "prefetch", 2, 0);
    ticker_start(&ticker, &progress, &lock);
    wait_until("the first tick", has_said, &ticker);
    ticker_stop(&ticker);
}

TEST_F(output, an_interrupted_command_says_what_is_kept_and_ends_by_the_signal)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fileno(f->out), STDERR_FILENO);
        interrupt_says("kilnctl", "an earlier text");
        interrupt_says("kilnctl", "kernels stay");
        raise(SIGINT);
        _exit(1);
    }
    WAIT_FOR(waitpid(pid, &status, WNOHANG) == pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    assert_string_equal(read_printed(f), "\nkilnctl: interrupted: kernels stay\n");
}

TEST_F(output, progress_of_zero_items_is_complete_at_once)
{
    struct progress progress;
    progress_init(&progress, f->out, "prefetch", 0, 0);
    progress_update(&progress, 0, 0, SECOND);
    assert_string_equal(read_printed(f), "prefetch: 0 of 0 done, 1.00 s\n");
}

TEST_F(output, progress_of_brief_work_prints_nothing_elsewhere_than_on_a_terminal)
{
    struct progress progress;
    progress_init(&progress, f->out, "reading", 2, SECOND);
    progress_update(&progress, 1, 0, SECOND + SECOND / 2);
    progress_finish(&progress, 2 * SECOND - 1);
    assert_string_equal(read_printed(f), "");
}

TEST_F(output, progress_of_bytes_is_reported_in_their_units)
{
    struct progress progress;
    progress_init(&progress, f->out, "fetching", 2u << 20, 0);
    progress.bytes = true;
    progress_update(&progress, 1u << 20, 0, SECOND);
    progress.width = 80;
    progress_update(&progress, 2u << 20, 0, 2 * SECOND);
    assert_string_equal(read_printed(f), "fetching: 1.0 MiB of 2.0 MiB done, 1.00 s\n"
                                         "\r\033[Kfetching [##############################] "
                                         "2.0 MiB/2.0 MiB, 2.00 s");
}

TEST_F(output, progress_shows_the_commands_time_and_the_stages_time_left)
{
    struct progress progress;
    progress_init(&progress, f->out, "checking", 10, 60 * SECOND);
    progress.started_ns = 10 * SECOND;
    progress_update(&progress, 5, 0, 62 * SECOND);
    progress.width = 80;
    progress_update(&progress, 5, 0, 62 * SECOND);
    assert_string_equal(read_printed(f), "checking: 5 of 10 done, 52.0 s\n"
                                         "\r\033[Kchecking [###############...............] 5/10, "
                                         "2.00 s left");
}

TEST_F(output, progress_that_stopped_short_is_finished_once)
{
    struct progress progress;
    progress_init(&progress, f->out, "fetching", 3u << 20, 0);
    progress.bytes = true;
    progress_update(&progress, 1u << 20, 0, SECOND);
    progress_finish(&progress, 2 * SECOND);
    progress_finish(&progress, 3 * SECOND);
    assert_string_equal(read_printed(f), "fetching: 1.0 MiB of 3.0 MiB done, 1.00 s\n"
                                         "fetching: 3.0 MiB of 3.0 MiB done, 2.00 s\n");
}

TEST_F(output, progress_without_an_end_is_not_finished)
{
    struct progress progress;
    progress_init(&progress, f->out, "unpacking", 0, 0);
    progress.no_total = true;
    progress_finish(&progress, SECOND);
    progress_init(&progress, f->out, "fetching", 10, 0);
    progress.width = 80;
    /* On a terminal, progress_finish only erases the progress bar, and prints no line. */
    progress_finish(&progress, SECOND);
    assert_string_equal(read_printed(f), "");
}

TEST_F(output, progress_without_a_total_is_a_count_on_terminals_only)
{
    struct progress progress;
    progress_init(&progress, f->out, "fetching", 0, 0);
    progress.bytes = true;
    progress.no_total = true;
    progress_update(&progress, 1u << 20, 0, SECOND);
    progress.width = 80;
    progress_update(&progress, 1u << 20, 0, SECOND);
    progress_update(&progress, 2u << 20, 0, SECOND + 1); /* too early for another line */
    progress_update(&progress, 3u << 20, 0, 2 * SECOND);
    assert_string_equal(read_printed(f), "\r\033[Kfetching 1.0 MiB, 1.00 s"
                                         "\r\033[Kfetching 3.0 MiB, 2.00 s");
}

TEST_F(output, a_terminal_gets_a_bar_that_redraws_itself)
{
    struct progress progress;
    progress_init(&progress, f->out, "prefetch", 10, 0);
    progress.width = 80;
    progress_update(&progress, 5, 0, 10u * SECOND);
    progress_update(&progress, 6, 0, 10u * SECOND + 1);
    progress_update(&progress, 10, 2, 20u * SECOND);
    assert_string_equal(
        read_printed(f),
        "\r\033[Kprefetch [###############...............] 5/10, 10.0 s left"
        "\r\033[Kprefetch [##############################] 10/10, 2 failed, 20.0 s");
}

TEST_F(output, a_progress_bar_fits_a_narrow_terminal)
{
    struct progress progress;
    progress_init(&progress, f->out, "prefetch", 10, 0);
    progress.width = 36;
    progress_update(&progress, 5, 0, 10u * SECOND);
    progress.width = 12;
    progress_update(&progress, 10, 2, 20u * SECOND);
    assert_string_equal(read_printed(f), "\r\033[Kprefetch [###...] 5/10, 10.0 s left"
                                         "\r\033[Kprefetch []");
}

TEST(output, every_code_has_an_exit_status_and_zero_is_success_alone)
{
    assert_int_equal(exit_status_of(KILN_E_OK), 0);
    assert_int_equal(exit_status_of(KILN_E_INVALID), 2);
    assert_int_equal(exit_status_of(KILN_E_UNAVAILABLE), 3);
    assert_int_equal(exit_status_of(KILN_E_DENIED), 4);
    assert_int_equal(exit_status_of(KILN_E_NOT_FOUND), 5);
    for (int code = 1; code < 300; code++)
        assert_int_not_equal(exit_status_of(code), 0);
    assert_int_equal(exit_status_of(KILN_E_COMPILE_FAILED), 1);
    assert_int_equal(exit_status_of(-1), 1);
    assert_null(exit_status_advice(12345));
}
