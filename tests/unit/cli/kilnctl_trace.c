/* SPDX-License-Identifier: MIT */

#include "cli/kilnctl/trace_job.h"
#include "tests/support/failing_calls.h"
#include "tests/unit/cli/kilnctl_run.h"
#include "tests/unit/cli/scratch_directory.h"

#include "common/base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define KEY_A "15ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e0000"
#define KEY_B "25ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e15ba9f68351e0000"
#define SMALL "conv -n 1 -c 8 -k 8 -F 1"
#define LARGE "conv -n 2 -c 8 -k 8 -F 1"
#define HEAD(start) "kiln-trace 1\nprocess " start " node7 42 libkiln 1\n"

struct fixture {
    struct command_run run;
    const char *home;
    char directory[128]; /* the trace directory of the job "net" */
};

static void make_job(const struct fixture *f, const char *job, char directory[128])
{
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(directory, 128, "%.80s/.cache/kiln/traces/%.16s", f->home, job);
    must(fs_make_directories_mode(directory, 0700, &err), err);
}

SET_UP(set_up)
{
    f->home = test_directory();
    test_setenv("HOME", f->home);
    test_setenv("XDG_CACHE_HOME", NULL);
    make_job(f, "net", f->directory);
}

FIXTURE(kilnctl_trace, set_up, NULL);

/* Writes the traces of two processes. The second process requests the same plan earlier than the
 * first and waits longer. */
static void write_two(const struct fixture *f)
{
    scratch_write(f->directory, "1764288000-node7-42.trace",
                  HEAD("1764288000000000") "plan 5000 2000 compiled gfx90a - - - " SMALL
                                           "\nobject compiled 1500 " KEY_A
                                           "\nkernel 9000 300 disk 0 - " KEY_B "\n");
    scratch_write(f->directory, "1764288001-node7-43.trace",
                  HEAD("1764288001000000") "plan 4000 7000 compiled gfx90a - - - " SMALL
                                           "\nplan 100 10 hot gfx90a - - Naive " LARGE "\n");
}

TEST_F(kilnctl_trace, show_merges_processes_in_the_order_of_first_use)
{
    write_two(f);
    must(RUN(&f->run, "trace", "show", "net", "--json"), f->run.err);
    assert_says(f->run.printed, "\"processes\":2,\"plans\":2,\"kernels\":2,\"failed\":0,"
                                "\"waited_s\":0.00931");
    const char *large = strstr(f->run.printed, LARGE), *small = strstr(f->run.printed, SMALL);
    const char *a = strstr(f->run.printed, KEY_A), *b = strstr(f->run.printed, KEY_B);
    assert_true(large && large < small && small < a && a < b);
    assert_says(f->run.printed, "\"wanted_ms\":4,\"waited_ms\":7,\"from\":\"compiled\","
                                "\"processes\":2");
}

TEST_F(kilnctl_trace, a_directory_that_cannot_be_read_to_its_end_is_an_error)
{
    unsigned nth = 1;
    write_two(f);
    for (bool failed = true; failed; nth++) {
        fail_call("readdir", nth, EIO);
        int rc = RUN(&f->run, "trace", "show", "net");
        failed = calls_failed();
        assert_int_equal(rc, failed ? KILN_E_IO : KILN_E_OK);
    }
    assert_true(nth > 3);
}

TEST_F(kilnctl_trace, show_prints_a_table_and_the_sum_of_the_waits)
{
    write_two(f);
    must(RUN(&f->run, "trace", "show", "net"), f->run.err);
    assert_says(f->run.printed, LARGE " (solver Naive)");
    assert_says(f->run.printed, "kernel 15ba9f68351e");
    assert_says(f->run.printed, "2 processes, 2 plans, 2 kernels, 0 failed; waited 9.31 ms");
}

TEST_F(kilnctl_trace, show_prints_problems_for_other_commands)
{
    write_two(f);
    must(RUN(&f->run, "trace", "show", "net", "--problems"), f->run.err);
    const char *second = strchr(f->run.printed, '\n');
    assert_int_equal(strncmp(f->run.printed, "conv -n 2 -c 8 ", 15), 0);
    assert_non_null(second);
    assert_int_equal(strncmp(second, "\nconv -n 1 -c 8 ", 16), 0);
    assert_null(strstr(second + 1, "\nconv"));
}

TEST_F(kilnctl_trace, ls_lists_jobs_and_the_processes_of_one)
{
    char other[128];
    write_two(f);
    make_job(f, "empty", other);
    must(RUN(&f->run, "trace", "ls", "--json"), f->run.err);
    assert_says(f->run.printed, "{\"jobs\":[{\"job\":\"net\",\"processes\":2,\"plans\":2");
    assert_null(strstr(f->run.printed, "empty"));
    must(RUN(&f->run, "trace", "ls", "net", "--json"), f->run.err);
    assert_says(f->run.printed, "1764288000-node7-42.trace\",\"host\":\"node7\",\"pid\":42");
    f->run.common.json = false;
    must(RUN(&f->run, "trace", "ls", "net"), f->run.err);
    assert_says(f->run.printed, "1764288001-node7-43.trace");
}

/* 5000 names come before "net" in the alphabet.  No job has such a name, because of the space. They
 * are links to one file, because creating as many files takes seconds. */
TEST_F(kilnctl_trace, ls_lists_a_job_after_thousands_of_other_names)
{
    char above[128], first[512], path[512];
    write_two(f);
    snprintf(above, sizeof(above), "%.100s/.cache/kiln/traces", f->home);
    scratch_create(above, "a file", "text", first);
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(path, sizeof(path), "%s/a file %04u", above, i);
        assert_int_equal(link(first, path), 0);
    }
    must(RUN(&f->run, "trace", "ls", "--json"), f->run.err);
    assert_says(f->run.printed, "{\"jobs\":[{\"job\":\"net\",\"processes\":2,");
}

TEST_F(kilnctl_trace, ls_skips_what_is_no_directory_of_a_job)
{
    char above[160];
    write_two(f);
    snprintf(above, sizeof(above), "%.100s/.cache/kiln/traces", f->home);
    scratch_write(above, "a-file", "text");
    scratch_write(above, "no\x1b[2Jname", "text");
    must(RUN(&f->run, "trace", "ls", "--json"), f->run.err);
    assert_says(f->run.printed, "{\"jobs\":[{\"job\":\"net\",\"processes\":2,");
    assert_says(f->run.printed, "}]}");
}

TEST_F(kilnctl_trace, a_job_without_traces_is_not_found)
{
    assert_int_equal(RUN(&f->run, "trace", "show", "net"), KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "trace ls");
    assert_int_equal(RUN(&f->run, "trace", "show", "nothing"), KILN_E_NOT_FOUND);
    assert_null(strstr(f->run.err.text, "./"));
    must(RUN(&f->run, "trace", "ls"), f->run.err);
    assert_says(f->run.printed, "KILN_TRACE");
}

TEST_F(kilnctl_trace, a_file_that_is_named_as_a_job_is_pointed_out)
{
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scratch_write(f->home, "miopen.log", "text");
    assert_int_equal(chdir(f->home), 0);
    int rc = RUN(&f->run, "trace", "find", "miopen.log");
    assert_int_equal(fchdir(before), 0);
    close(before);
    assert_int_equal(rc, KILN_E_NOT_FOUND);
    assert_says(f->run.err.text, "./miopen.log");
}

TEST_F(kilnctl_trace, a_name_of_a_job_cannot_leave_the_directory_of_traces)
{
    assert_int_equal(RUN(&f->run, "trace", "show", ".."), KILN_E_NOT_FOUND);
}

TEST_F(kilnctl_trace, damaged_lines_and_a_cut_end_are_counted_and_the_rest_is_read)
{
    scratch_write(f->directory, "1764288000-node7-42.trace",
                  HEAD("1764288000000000") "plan 1 2 hot gfx90a - - - " SMALL
                                           "\n\x1b[2J\nplan 1 x\nfuture-line 7\ncut bytes\n"
                                           "plan 9 9 hot gfx90a - - - conv -n 64 -c");
    must(RUN(&f->run, "trace", "show", "net", "--json"), f->run.err);
    assert_says(f->run.printed, "\"plans\":1,\"kernels\":0,\"failed\":0");
    assert_says(f->run.printed, "\"cut\":1,\"damaged\":3");
}

TEST_F(kilnctl_trace, files_that_are_no_traces_do_not_stop_the_command)
{
    char path[512];
    write_two(f);
    scratch_write(f->directory, "1764287000-x-1.trace", "kiln-trace 2\nplan\n");
    scratch_write(f->directory, "1764287001-x-1.trace", "");
    assert_int_equal(mkfifo(scratch_path(f->directory, "1764287002-x-1.trace", path), 0600), 0);
    assert_int_equal(mkdir(scratch_path(f->directory, "1764287003-x-1.trace", path), 0700), 0);
    must(RUN(&f->run, "trace", "show", "net", "--json"), f->run.err);
    assert_says(f->run.printed, "\"processes\":2,\"plans\":2");
    assert_int_equal(
        RUN(&f->run, "trace", "show", scratch_path(f->directory, "1764287002-x-1.trace", path)),
        KILN_E_CORRUPT);
}

TEST_F(kilnctl_trace, a_file_beyond_the_limit_is_refused)
{
    char path[512];
    write_two(f);
    scratch_create(f->directory, "1764287000-x-1.trace", HEAD("1764287000000000"), path);
    assert_int_equal(truncate(path, TRACE_FILE_BYTES_MAX + 1), 0);
    assert_int_equal(RUN(&f->run, "trace", "show", path), KILN_E_CORRUPT);
    must(RUN(&f->run, "trace", "show", "net", "--json"), f->run.err);
    assert_says(f->run.printed, "\"processes\":2");
}

TEST_F(kilnctl_trace, diff_names_what_only_one_job_used_or_compiled)
{
    char other[128];
    write_two(f);
    make_job(f, "second", other);
    scratch_write(other, "1764288100-node7-50.trace",
                  HEAD("1764288100000000") "plan 5000 20 hot gfx90a - - - " SMALL
                                           "\nobject hot 1500 " KEY_A
                                           "\nplan 6000 20 hot sm_90 - - - " SMALL "\n");
    must(RUN(&f->run, "trace", "diff", "net", "second"), f->run.err);
    assert_says(f->run.printed, "- " SMALL " (compiled only for A) waited 7.00 ms\n");
    assert_says(f->run.printed, "- " LARGE " (solver Naive) waited");
    assert_says(f->run.printed, "- kernel 25ba9f68351e");
    assert_says(f->run.printed, "+ " SMALL " waited");
    assert_says(f->run.printed, "2 plans");
    must(RUN(&f->run, "trace", "diff", "net", "second", "--json"), f->run.err);
    assert_says(f->run.printed, "\"only_b\":[{\"kind\":\"plan\"");
}
