/* SPDX-License-Identifier: MIT */
#include "common/base/err.h"
#include "tests/support/test.h"

#include <errno.h>
#include <string.h>

TEST(plain, kiln_fail_records_a_message_and_returns_the_code)
{
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(kiln_fail(&err, KILN_FULL, "%d bytes", 7), KILN_FULL);
    assert_int_equal(err.code, KILN_FULL);
    assert_string_equal(err.text, "7 bytes");
}

TEST(plain, kiln_while_puts_context_in_front_of_an_error)
{
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(kiln_fail_errno(&err, ENOSPC, "cannot write '%s'", "x"), KILN_FULL);
    assert_int_equal(kiln_while(&err, "storing a kernel"), KILN_FULL);
    assert_says(err.text, "storing a kernel: ");
    assert_says(err.text, strerror(ENOSPC));
}

TEST(plain, an_error_message_that_is_too_long_is_cut)
{
    struct kiln_err err = KILN_ERR_INIT;
    char longer[2 * sizeof(err.text)];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(kiln_fail(&err, KILN_IO, "%s", longer), KILN_IO);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(kiln_while(&err, "more"), KILN_IO);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

TEST(plain, every_error_code_has_a_name_and_unknown_codes_have_none)
{
    assert_string_equal(kiln_code_name(KILN_COMPILE_FAILED), "COMPILE_FAILED");
    assert_string_equal(kiln_code_text(KILN_NOT_FOUND), "no such entry");
    for (int code = 0; code < 999; code++) {
        bool known = strcmp(kiln_code_name((enum kiln_code)code), "?") != 0;
        assert_int_equal(strcmp(kiln_code_text((enum kiln_code)code), "?") != 0, known);
        assert_true(known || !kiln_code_is_retryable((enum kiln_code)code));
    }
    assert_string_equal(kiln_code_name((enum kiln_code)999), "?");
    assert_false(kiln_code_is_retryable((enum kiln_code)999));
    assert_true(kiln_code_is_retryable(KILN_UNAVAILABLE));
    assert_false(kiln_code_is_retryable(KILN_INVALID));
}
