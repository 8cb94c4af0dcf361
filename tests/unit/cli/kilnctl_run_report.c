/* SPDX-License-Identifier: MIT */
/* Tests what `kilnctl run --explain` prints. */
#include "cli/kilnctl/run_report.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    char path[128];
    char printed[4096];
};

SET_UP(set_up)
{
    snprintf(f->path, sizeof(f->path), "%.100s/report", test_directory());
    test_write_text(f->path, "hit 2\nsaved_ms 1500\nlibrary nvrtc /lib/libnvrtc.so\n"
                             "forwarded 1 an option is unknown\nnonsense\n");
}

FIXTURE(kilnctl_run_report, set_up, NULL);

/* Prints the report of a file that was opened with |flags|. */
static const char *print_report(struct fixture *f, const char *path, int flags, bool json)
{
    FILE *captured = tmpfile();
    int kept = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(captured), STDERR_FILENO);
    run_report_print(open(path, flags | O_CLOEXEC), false, json);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(captured);
    f->printed[fread(f->printed, 1, sizeof(f->printed) - 1, captured)] = '\0';
    fclose(captured);
    return f->printed;
}

TEST_F(kilnctl_run_report, counts_and_libraries_are_printed)
{
    const char *text = print_report(f, f->path, O_RDONLY, false);
    assert_says(text, "loaded: nvrtc /lib/libnvrtc.so");
    assert_says(text, "3 compiles: 2 answered");
    assert_says(text, "1.50 s");
    assert_says(text, "unknown");
}

/* A directory opens, but reading it fails. The other file is not open for reading. */
TEST_F(kilnctl_run_report, a_report_that_cannot_be_read_is_not_reported_as_zeros)
{
    const char *const paths[] = { test_directory(), f->path };
    const int flags[] = { O_RDONLY | O_DIRECTORY, O_WRONLY };
    for (size_t i = 0; i < 2; i++) {
        const char *text = print_report(f, paths[i], flags[i], false);
        assert_says(text, "no report");
        assert_null(strstr(text, "loaded"));
        text = print_report(f, paths[i], flags[i], true);
        assert_int_equal(strncmp(text, "{\"error\":{\"code\":\"IO\",", 22), 0);
        assert_null(strstr(text, "compiles"));
    }
}
