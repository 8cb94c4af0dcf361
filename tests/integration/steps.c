/* SPDX-License-Identifier: MIT */
#include "tests/integration/steps.h"

#include <stdio.h>
#include <string.h>

void expect_status(const struct program_result *result, int status, const char *words)
{
    if (result->status != status)
        fail_msg("exit status %d instead of %d: '%s'", result->status, status, result->output);
    assert_says(result->output, words);
}

struct json *printed_json(const struct program_result *result)
{
    const char *last = NULL;
    for (const char *line = result->output; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        last = *line == '{' ? line : last;
    }
    if (!last)
        fail_msg("no JSON in '%s'", result->output);
    struct kiln_err err = KILN_ERR_INIT;
    struct json *json = NULL;
    must(json_parse(bytes_of(last, strcspn(last, "\n")), "output", &json, &err), err);
    return json;
}

/* The tuning database is left out, because its lock and its log change. */
char *describe_files(const char *directory)
{
    return shell_text(directory,
                      "find . -type f ! -name 'tuning.*' -printf '%%p %%s %%m\\n' | LC_ALL=C sort; "
                      "find . -type f ! -name 'tuning.*' -exec sha256sum {} + | LC_ALL=C sort");
}

void expect_files(const char *directory, char *before)
{
    KILN_AUTO(mem) char *then = before;
    KILN_AUTO(mem) char *now = describe_files(directory);
    assert_string_equal(now, then);
}

void fake_filesystem_type(const char *type, const char *directory)
{
    const char *options = getenv("ASAN_OPTIONS");
    char more[512];
    snprintf(more, sizeof(more), "%s:verify_asan_link_order=0", options ? options : "");
    test_setenv("ASAN_OPTIONS", more);
    test_setenv("LD_PRELOAD", KILN_BIN "/../tests/fake_filesystem.so");
    test_setenv("KILN_TEST_F_TYPE", type);
    test_setenv("KILN_TEST_F_DIRECTORY", directory);
}

unsigned long long disk_used(const char *directory)
{
    KILN_AUTO(mem) char *text = shell_text(directory, "du -s -B1 .");
    return strtoull(text, NULL, 10);
}

void daemon_status(struct daemon_process *d, const char *part, const char *member, char text[512])
{
    static struct program_result result;
    run_program(d, &result, "kilnctl", "status", "--json", NULL);
    expect_status(&result, 0, "");
    KILN_AUTO(json) struct json *status = result_json(&result);
    const struct json *value = json_get(json_get(status, part), member);
    KILN_AUTO(mem) char *printed = value ? json_print(value, false) : NULL;
    snprintf(text, 512, "%s", printed ? printed : "");
}
