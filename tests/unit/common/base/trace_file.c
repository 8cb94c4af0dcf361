/* SPDX-License-Identifier: MIT */
#include "common/base/trace_file.h"

#include "common/base/fs.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define STRANGER 4242u

struct fixture {
    const char *home;
    struct trace_line process;
    struct trace_file file;
    struct kiln_err err;
    char directory[PATH_TEXT_MAX]; /* the trace directory of the job "net" */
};

SET_UP(set_up)
{
    f->home = test_directory();
    test_setenv("HOME", f->home);
    test_setenv("XDG_CACHE_HOME", NULL);
    f->process = (struct trace_line){ .kind = TRACE_PROCESS,
                                      .start_us = 1764288000000000u,
                                      .host = bytes_of_text("node7"),
                                      .pid = 42,
                                      .rest = bytes_of_text("libkiln 1") };
    f->file.fd = -1;
    must(trace_directory("net", f->directory, &f->err), f->err);
}

TEAR_DOWN(tear_down) { trace_file_close(&f->file); }

FIXTURE(trace_file, set_up, tear_down);

static void create(struct fixture *f)
{
    must(trace_file_create("net", TRACE_ENDING, &f->process, &f->file, &f->err), f->err);
}

static char *path_of(const struct fixture *f, const char *name)
{
    static char path[PATH_TEXT_MAX + 300];
    snprintf(path, sizeof(path), "%s/%s", f->directory, name);
    return path;
}

static void read_file(const struct fixture *f, const char *name, struct buffer *text)
{
    struct kiln_err err = KILN_ERR_INIT;
    buffer_init(text, 2 * TRACE_FILE_BYTES_MAX);
    must(fs_read_file(path_of(f, name), TRACE_FILE_BYTES_MAX + 1, text, &err), err);
    buffer_put_u8(text, '\0');
}

static unsigned count_files(const struct fixture *f)
{
    unsigned count = 0;
    DIR *entries = opendir(f->directory);
    assert_non_null(entries);
    for (const struct dirent *e; (e = readdir(entries));)
        count += e->d_name[0] != '.';
    closedir(entries);
    return count;
}

#define FIRST "1764288000-node7-42.trace"

TEST_F(trace_file, a_new_file_is_private_and_has_the_first_lines)
{
    BUFFER_AUTO struct buffer text;
    struct stat seen;
    umask(0);
    create(f);
    read_file(f, FIRST, &text);
    assert_string_equal((const char *)text.data,
                        "kiln-trace 1\nprocess 1764288000000000 node7 42 libkiln 1\n");
    assert_int_equal(stat(path_of(f, FIRST), &seen), 0);
    assert_int_equal(seen.st_mode & 07777, 0600);
    assert_int_equal(stat(f->directory, &seen), 0);
    assert_int_equal(seen.st_mode & 07777, 0700);
}

TEST_F(trace_file, a_second_file_of_a_process_gets_another_name)
{
    struct trace_file second = { .fd = -1 };
    create(f);
    must(trace_file_create("net", TRACE_ENDING, &f->process, &second, &f->err), f->err);
    trace_file_close(&second);
    assert_int_equal(access(path_of(f, "1764288000-node7-42-1.trace"), F_OK), 0);
    assert_int_equal(count_files(f), 2);
}

TEST_F(trace_file, a_link_that_somebody_placed_is_not_followed)
{
    char target[PATH_TEXT_MAX + 300];
    must(fs_make_directories_mode(f->directory, 0700, &f->err), f->err);
    snprintf(target, sizeof(target), "%s/victim", f->home);
    assert_int_equal(symlink(target, path_of(f, FIRST)), 0);
    create(f);
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(access(path_of(f, "1764288000-node7-42-1.trace"), F_OK), 0);
}

TEST_F(trace_file, a_directory_that_others_may_write_to_is_refused)
{
    must(fs_make_directories_mode(f->directory, 0700, &f->err), f->err);
    assert_int_equal(chmod(f->directory, 0777), 0);
    assert_int_equal(trace_file_create("net", TRACE_ENDING, &f->process, &f->file, &f->err),
                     KILN_DENIED);
    assert_int_equal(count_files(f), 0);
}

static bool cannot_see(void *context)
{
    const struct fixture *f = context;
    return setgid(STRANGER) == 0 && setuid(STRANGER) == 0 && !opendir(f->directory) &&
           open(path_of(f, FIRST), O_RDONLY | O_CLOEXEC) < 0;
}

TEST_F(trace_file, another_user_sees_neither_the_names_nor_the_lines)
{
    NEED_ROOT();
    create(f);
    assert_int_equal(chmod(f->home, 0755), 0);
    assert_true(run_in_child(cannot_see, f));
}

static void add_many(struct fixture *f, size_t size, unsigned count)
{
    char text[TRACE_LINE_MAX];
    memset(text, 'x', sizeof(text));
    const struct trace_line line = { .kind = TRACE_PLAN, .rest = bytes_of(text, size) };
    for (unsigned i = 0; i < count; i++)
        trace_file_add(&f->file, &line, 1);
}

static void expect_end(const struct fixture *f, const char *end)
{
    BUFFER_AUTO struct buffer text;
    read_file(f, FIRST, &text);
    assert_true(text.size <= TRACE_FILE_BYTES_MAX + 1);
    assert_true(text_ends_with((const char *)text.data, end));
    assert_int_equal(f->file.fd, -1);
}

TEST_F(trace_file, a_file_with_too_many_bytes_is_cut_and_says_so)
{
    create(f);
    add_many(f, 900, 2000);
    expect_end(f, "x\ncut bytes\n");
}

TEST_F(trace_file, a_file_with_too_many_lines_is_cut_and_says_so)
{
    create(f);
    add_many(f, 1, TRACE_FILE_LINES_MAX);
    expect_end(f, "x\ncut lines\n");
}

static bool write_to_the_limit(void *context)
{
    struct fixture *f = context;
    const struct rlimit limit = { .rlim_cur = 4096, .rlim_max = 4096 };
    if (setrlimit(RLIMIT_FSIZE, &limit))
        return false;
    create(f);
    add_many(f, 900, 10);
    return f->file.fd == -1;
}

TEST_F(trace_file, a_limit_of_the_process_cuts_the_file_and_not_the_job)
{
    struct stat seen;
    assert_true(run_in_child(write_to_the_limit, f));
    assert_int_equal(stat(path_of(f, FIRST), &seen), 0);
    assert_true(seen.st_size <= 4096);
    expect_end(f, "x\ncut bytes\n");
}

TEST_F(trace_file, lines_that_cannot_be_expressed_are_not_written_in_part)
{
    const struct trace_line lines[2] = {
        { .kind = TRACE_PLAN, .rest = bytes_of_text("conv") },
        { .kind = TRACE_OBJECT, .key = bytes_of_text("no key") },
    };
    create(f);
    size_t before = f->file.bytes;
    trace_file_add(&f->file, lines, 2);
    assert_int_equal(f->file.bytes, before);
    assert_true(f->file.fd >= 0);
}

TEST_F(trace_file, a_new_file_replaces_the_oldest_of_too_many)
{
    create(f);
    trace_file_close(&f->file);
    for (unsigned i = 1; i < TRACE_FILES_MAX + 3; i++) {
        f->process.start_us += 1000000u;
        create(f);
        trace_file_close(&f->file);
    }
    assert_int_equal(count_files(f), TRACE_FILES_MAX);
    assert_int_equal(access(path_of(f, FIRST), F_OK), -1);
    assert_int_equal(access(path_of(f, "1764288003-node7-42.trace"), F_OK), 0);
}

TEST_F(trace_file, traces_of_many_processes_do_not_replace_a_prefetch)
{
    must(trace_file_create("net", TRACE_PREFETCH_ENDING, &f->process, &f->file, &f->err), f->err);
    trace_file_close(&f->file);
    for (unsigned i = 0; i <= TRACE_FILES_MAX; i++) {
        f->process.start_us += 1000000u;
        create(f);
        trace_file_close(&f->file);
    }
    assert_int_equal(count_files(f), TRACE_FILES_MAX + 1);
    assert_int_equal(access(path_of(f, "1764288000-node7-42.prefetch"), F_OK), 0);
}

static bool fails_to_begin(void *context)
{
    struct fixture *f = context;
    /* First, the limit allows only the first line of the file. Then, it allows no line. */
    for (rlim_t bytes = 20;; bytes = 0) {
        const struct rlimit limit = { .rlim_cur = bytes, .rlim_max = bytes };
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
            trace_file_create("net", TRACE_ENDING, &f->process, &f->file, &f->err) == KILN_OK)
            return false;
        if (bytes == 0)
            return true;
    }
}

TEST_F(trace_file, a_file_that_cannot_get_its_first_lines_is_removed)
{
    assert_true(run_in_child(fails_to_begin, f));
    assert_int_equal(count_files(f), 0);
}

TEST(plain, the_name_of_a_job_is_a_name_of_a_directory)
{
    char name[TRACE_JOB_MAX], longest[300];
    assert_true(trace_job_name("resnet50_v1.5+amp=on", name));
    assert_string_equal(name, "resnet50_v1.5+amp=on");
    assert_true(trace_job_name("../../etc/passwd", name));
    assert_string_equal(name, "_._.._etc_passwd");
    assert_true(trace_job_name("-x\n\xc3\xa4", name));
    assert_string_equal(name, "_x___");
    assert_false(trace_job_name("", name));
    memset(longest, 'a', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    assert_true(trace_job_name(longest, name));
    assert_int_equal(strlen(name), TRACE_JOB_MAX - 1);
}

TEST_F(trace_file, a_full_disk_ends_the_trace_and_not_the_job)
{
    create(f);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0 && dup2(full, f->file.fd) >= 0);
    close(full);
    add_many(f, 10, 2);
    assert_int_equal(f->file.fd, -1);
}
