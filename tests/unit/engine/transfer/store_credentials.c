/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/base/fs.h"
#include "engine/transfer/store_credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TWO_PROFILES                                                             \
    "[default]\naws_access_key_id = ONE\naws_secret_access_key=first=secret\r\n" \
    "# aws_secret_access_key = no\n\n[other]\naws_secret_access_key = second\n"  \
    "aws_access_key_id\t=\tTWO\naws_session_token = long\nregion = eu-west-3\n"

struct fixture {
    char path[320], directory[256];
    struct store_credentials credentials;
    struct kiln_err err;
};

static void forget_environment(void)
{
    static const char *const names[] = { "AWS_ACCESS_KEY_ID",     "AWS_SECRET_ACCESS_KEY",
                                         "AWS_SESSION_TOKEN",     "AWS_REGION",
                                         "AWS_PROFILE",           "AWS_SHARED_CREDENTIALS_FILE",
                                         "CREDENTIALS_DIRECTORY", "AWS_DEFAULT_REGION" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

SET_UP(set_up)
{
    forget_environment();
    snprintf(f->directory, sizeof(f->directory), "%s", test_directory());
    snprintf(f->path, sizeof(f->path), "%s/aws", f->directory);
    must(fs_replace_file(f->path, bytes_of_text(TWO_PROFILES), 0600, &f->err), f->err);
}
FIXTURE(credentials, set_up, NULL);

static void read_them(struct fixture *f)
{
    must(store_credentials_read(&f->credentials, &f->err), f->err);
}

TEST_F(credentials, without_credentials_requests_are_not_signed)
{
    read_them(f);
    assert_string_equal(f->credentials.id, "");
}

TEST_F(credentials, variables_come_first)
{
    setenv("AWS_ACCESS_KEY_ID", "ID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("AWS_REGION", "eu-central-1", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", f->path, 1);
    read_them(f);
    assert_string_equal(f->credentials.id, "ID");
    assert_string_equal(f->credentials.secret, "secret");
    assert_string_equal(f->credentials.token, "");
    assert_string_equal(f->credentials.region, "eu-central-1");
}

TEST_F(credentials, a_credential_of_systemd_is_used)
{
    setenv("CREDENTIALS_DIRECTORY", f->directory, 1);
    read_them(f);
    assert_string_equal(f->credentials.id, "ONE");
    assert_string_equal(f->credentials.secret, "first=secret");
    assert_string_equal(f->credentials.region, "us-east-1");
}

TEST_F(credentials, a_unit_may_have_other_credentials_only)
{
    setenv("CREDENTIALS_DIRECTORY", "/", 1);
    read_them(f);
    assert_string_equal(f->credentials.id, "");
}

TEST_F(credentials, the_profile_is_used)
{
    setenv("AWS_SHARED_CREDENTIALS_FILE", f->path, 1);
    setenv("AWS_PROFILE", "other", 1);
    read_them(f);
    assert_string_equal(f->credentials.id, "TWO");
    assert_string_equal(f->credentials.secret, "second");
    assert_string_equal(f->credentials.token, "long");
    assert_string_equal(f->credentials.region, "eu-west-3");
}

TEST_F(credentials, a_file_that_cannot_be_used_is_an_error)
{
    setenv("AWS_SHARED_CREDENTIALS_FILE", f->path, 1);
    setenv("AWS_PROFILE", "othe", 1);
    assert_int_equal(store_credentials_read(&f->credentials, &f->err), KILN_INVALID);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    assert_int_equal(store_credentials_read(&f->credentials, &f->err), KILN_NOT_FOUND);
}
