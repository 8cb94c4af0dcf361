/* SPDX-License-Identifier: MIT */
#include "cli/result.h"
#include "cli/exit_status.h"
#include "cli/fail.h"
#include "cli/output.h"
#include "common/base/json.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
    FILE *files[2];
    int kept[2];
    char texts[2][4096]; /* standard output, standard error */
};

SET_UP(set_up) {}

FIXTURE(result, set_up, NULL);

static void capture_streams(struct fixture *f)
{
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        f->files[i] = tmpfile();
        f->kept[i] = dup(i + 1);
        dup2(fileno(f->files[i]), i + 1);
    }
}

static void release_streams(struct fixture *f)
{
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(f->kept[i], i + 1);
        close(f->kept[i]);
        rewind(f->files[i]);
        f->texts[i][fread(f->texts[i], 1, sizeof(f->texts[i]) - 1, f->files[i])] = '\0';
        fclose(f->files[i]);
    }
}

static enum exit_status end_result(struct fixture *f, const struct result *result, int rc,
                                   struct kiln_error *err)
{
    capture_streams(f);
    enum exit_status status = result_end(result, rc, err);
    release_streams(f);
    return status;
}

TEST_F(result, a_failure_is_a_message_and_a_status)
{
    struct kiln_error err = { .code = KILN_E_DENIED, .text = "not for you" };
    assert_int_equal(end_result(f, &(struct result){ .program = "kilnctl" }, KILN_E_DENIED, &err),
                     4);
    assert_string_equal(f->texts[0], "");
    assert_string_equal(f->texts[1], "kilnctl: not for you\n");
}

TEST_F(result, with_json_a_failure_is_a_json_object)
{
    struct kiln_error err = { .code = KILN_E_DENIED, .text = "not for \"you\"" };
    struct result result = { .program = "kilnctl", .json = true };
    assert_int_equal(end_result(f, &result, KILN_E_DENIED, &err), 4);
    assert_string_equal(f->texts[0],
                        "{\"error\":{\"code\":\"DENIED\",\"text\":\"not for \\\"you\\\"\"}}\n");
    assert_string_equal(f->texts[1], "kilnctl: not for \"you\"\n");
}

TEST_F(result, a_failure_that_was_reported_as_json_is_not_reported_again)
{
    struct kiln_error err = { .code = KILN_E_IO, .text = "half of it" };
    struct result result = { .program = "kilnctl", .json = true, .reported = true };
    assert_int_equal(end_result(f, &result, KILN_E_IO, &err), 1);
    assert_string_equal(f->texts[0], "");
    assert_string_equal(f->texts[1], "kilnctl: half of it\n");
}

TEST_F(result, unavailable_from_a_daemon_that_answers_is_not_a_missing_daemon)
{
    struct kiln_error err = { .code = KILN_E_UNAVAILABLE, .text = "no such server" };
    struct result result = { .program = "kilnctl" };
    assert_int_equal(end_result(f, &result, KILN_E_UNAVAILABLE, &err), 3);
    result.daemon_answers = true;
    assert_int_equal(end_result(f, &result, KILN_E_UNAVAILABLE, &err), 1);
}

TEST(result, a_compilers_log_is_printed_with_the_error)
{
    struct kiln_error err = { .code = KILN_E_COMPILE_FAILED, .log = "x.c:1: no" };
    KILN_AUTO(json) struct json *json = result_error_json(&err);
    assert_string_equal(json_get_text(json, "log", ""), "x.c:1: no");
    assert_string_equal(json_get_text(json, "text", ""), kiln_error_text(KILN_E_COMPILE_FAILED));
}

TEST_F(result, a_command_that_succeeds_prints_no_error)
{
    struct kiln_error err = { 0 };
    struct result result = { .program = "kilnctl", .json = true };
    assert_int_equal(end_result(f, &result, KILN_E_OK, &err), 0);
    assert_string_equal(f->texts[0], "");
    assert_string_equal(f->texts[1], "");
}

TEST(result, the_json_option_is_recognised_except_after_two_dashes)
{
    assert_true(result_wants_json(2, (const char *[]){ "--frob", "--json" }));
    assert_false(result_wants_json(2, (const char *[]){ "--", "--json" }));
    assert_false(result_wants_json(1, (const char *[]){ "json" }));
}

TEST_F(result, json_that_is_printed_is_utf_8_whatever_it_holds)
{
    static const struct {
        const char *text, *printed;
    } cases[] = {
        { "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5",
          "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5" },
        { "\xff\xc3", "??" },                  /* an invalid first byte; an incomplete character */
        { "\xc0\xaf \xe0\x80\xaf", "?? ???" }, /* overlong forms */
        { "\xed\xa0\x80", "???" },             /* a surrogate */
        { "\xf4\x90\x80\x80", "????" },        /* beyond U+10FFFF */
        { "\xe2\x82 \xf0\x9f\x94", "?? ???" }, /* truncated characters */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kiln_error err = { 0 };
        char want[64];
        KILN_AUTO(json) struct json *json = json_object();
        json_set_text(json, "t", cases[i].text);
        capture_streams(f);
        int rc = output_json(json, &err);
        release_streams(f);
        snprintf(want, sizeof(want), "{\"t\":\"%s\"}\n", cases[i].printed);
        assert_int_equal(rc, KILN_E_OK);
        assert_string_equal(f->texts[0], want);
    }
}

TEST(plain, a_system_call_without_permission_is_denied)
{
    struct kiln_error err = { 0 };
    assert_int_equal(cli_fail_errno(&err, EACCES, "cannot open 'a'"), KILN_E_DENIED);
    assert_string_equal(err.text, "cannot open 'a': Permission denied");
    assert_int_equal(err.code, KILN_E_DENIED);
    assert_int_equal(exit_status_of(err.code), 4);
    assert_int_equal(cli_fail_errno(&err, EPERM, "x"), KILN_E_DENIED);
    assert_int_equal(cli_fail_errno(&err, ENOMEM, "x"), KILN_E_NO_MEMORY);
    assert_int_equal(cli_fail_errno(&err, ENOENT, "x"), KILN_E_IO);
}
