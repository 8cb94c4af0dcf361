/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/base/fs.h"
#include "engine/transfer/iso_time.h"
#include "engine/transfer/store_provider.h"
#include "tests/support/http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROLES "/latest/meta-data/iam/security-credentials/"
#define CREDENTIALS                                                        \
    "{\"Code\":\"Success\",\"AccessKeyId\":\"TEMPORARY\",\"Token\":\"t\"," \
    "\"SecretAccessKey\":\"secret\",\"Expiration\":\"2026-11-30T10:00:00Z\"}"

#define EXPIRATION "\"Expiration\":\"2026-11-30T10:00:00Z\""

/* A server for metadata, or for the credentials of a container. */
struct fixture {
    struct http_script server;
    char url[64];
    const char *answer; /* instead of the credentials; NULL: CREDENTIALS */
    unsigned without_token;
    struct store_credentials credentials;
    struct store_provider provider;
    struct kiln_err err;
};

static void say(int fd, const char *status, const char *body)
{
    http_say(fd, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", status,
             strlen(body), body);
}

static void answer_request(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    bool is_session = strncmp(s->request, "PUT /latest/api/token ", 22) == 0;
    (void)number;
    if (is_session && strstr(s->request, "X-aws-ec2-metadata-token-ttl-seconds: ")) {
        say(fd, "200 OK", "session");
        return;
    }
    if (!strstr(s->request, "X-aws-ec2-metadata-token: session\r\n") &&
        !strstr(s->request, "Authorization: session\r\n")) {
        f->without_token++;
        say(fd, "401 Unauthorized", "");
    } else if (strncmp(s->request, "GET " ROLES " ", strlen("GET " ROLES " ")) == 0) {
        say(fd, "200 OK", "builder\n");
    } else {
        say(fd, "200 OK", f->answer ? f->answer : CREDENTIALS);
    }
}

static void forget_environment(void)
{
    static const char *const names[] = {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",      "AWS_EC2_METADATA_DISABLED",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",     "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN"
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

SET_UP(set_up)
{
    forget_environment();
    strcpy(f->credentials.region, "eu-west-3");
    f->server.context = f;
    f->server.answer = answer_request;
    http_script_start(&f->server);
    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u", f->server.port);
}

TEAR_DOWN(tear_down) { http_script_stop(&f->server); }
FIXTURE(provider, set_up, tear_down);

static enum store_provider_kind find(struct fixture *f, const char *store)
{
    KILN_AUTO(url) struct url url = { 0 };
    must(url_parse(store, &url, &f->err), f->err);
    must(store_provider_find(&url, &f->provider, &f->err), f->err);
    return f->provider.kind;
}

static void find_instance(struct fixture *f)
{
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f->url, 1);
    assert_int_equal(find(f, "http://127.0.0.1/bucket"), STORE_PROVIDER_INSTANCE);
}

static void expect_credentials(struct fixture *f)
{
    must(store_provider_read(&f->provider, &f->credentials, &f->err), f->err);
    assert_string_equal(f->credentials.id, "TEMPORARY");
    assert_string_equal(f->credentials.secret, "secret");
    assert_string_equal(f->credentials.token, "t");
    assert_string_equal(f->credentials.region, "eu-west-3");
    assert_int_equal(f->credentials.expires_s, 1796032800);
    assert_int_equal(f->without_token, 0);
}

TEST_F(provider, an_instance_gets_the_credentials_of_its_role)
{
    find_instance(f);
    expect_credentials(f);
    http_script_stop(&f->server);
    assert_int_equal(f->server.requests, 3);
    assert_true(http_script_was_asked(&f->server, "GET " ROLES "builder HTTP/1.1"));
}

TEST_F(provider, a_container_gets_the_credentials_of_its_task)
{
    char url[96];
    snprintf(url, sizeof(url), "%s/v1/credentials", f->url);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "session", 1);
    assert_int_equal(find(f, "https://s3.eu-west-3.amazonaws.com/b"), STORE_PROVIDER_CONTAINER);
    expect_credentials(f);
}

TEST_F(provider, a_token_that_was_replaced_is_read_again)
{
    char url[96], path[320];
    snprintf(url, sizeof(url), "%s/v1/credentials", f->url);
    snprintf(path, sizeof(path), "%.300s/token", test_directory());
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
    assert_int_equal(find(f, "https://b.s3.amazonaws.com/"), STORE_PROVIDER_CONTAINER);
    must(fs_replace_file(path, bytes_of_text("old"), 0600, &f->err), f->err);
    assert_int_equal(store_provider_read(&f->provider, &f->credentials, &f->err), KILN_UNAVAILABLE);
    f->without_token = 0;
    must(fs_replace_file(path, bytes_of_text("session\n"), 0600, &f->err), f->err);
    expect_credentials(f);
}

TEST_F(provider, only_hosts_of_amazon_get_credentials_of_the_machine)
{
    assert_int_equal(find(f, "https://mirror.example/fleet"), STORE_PROVIDER_NONE);
    assert_int_equal(find(f, "https://amazonaws.com.example/fleet"), STORE_PROVIDER_NONE);
    assert_int_equal(find(f, "https://s3.eu-west-3.amazonaws.com/b"), STORE_PROVIDER_INSTANCE);
    assert_string_equal(f->provider.url, "http://169.254.169.254");
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    assert_int_equal(find(f, "https://s3.eu-west-3.amazonaws.com/b"), STORE_PROVIDER_NONE);
    setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/x", 1);
    assert_int_equal(find(f, "https://mirror.example/fleet"), STORE_PROVIDER_NONE);
    assert_int_equal(find(f, "https://s3.eu-west-3.amazonaws.com/b"), STORE_PROVIDER_CONTAINER);
    assert_string_equal(f->provider.url, "http://169.254.170.2/v2/credentials/x");
}

TEST_F(provider, a_relative_uri_cannot_name_another_host)
{
    static const char *const bad[] = { "v2/credentials", ".example/", "@mirror.example/", ":80/" };
    KILN_AUTO(url) struct url url = { 0 };
    must(url_parse("https://s3.eu-west-3.amazonaws.com/b", &url, &f->err), f->err);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", bad[i], 1);
        assert_int_equal(store_provider_find(&url, &f->provider, &f->err), KILN_INVALID);
        assert_says(f->err.text, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    }
}

TEST_F(provider, only_encrypted_stores_of_amazon_get_credentials_of_the_machine)
{
    static const char *const good[] = { "https://s3.eu-west-3.amazonaws.com/b",
                                        "https://b.s3.amazonaws.com/",
                                        "https://b.s3-fips.us-east-1.amazonaws.com/",
                                        "https://s3.cn-north-1.amazonaws.com.cn/b" };
    static const char *const bad[] = { "http://s3.eu-west-3.amazonaws.com/b",
                                       "https://ec2-192-0-2-1.compute-1.amazonaws.com/b",
                                       "https://x.execute-api.eu-west-3.amazonaws.com/s3",
                                       "https://s3x.eu-west-3.amazonaws.com/b",
                                       "https://xs3.eu-west-3.amazonaws.com/b" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(find(f, good[i]), STORE_PROVIDER_INSTANCE);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(find(f, bad[i]), STORE_PROVIDER_NONE);
}

TEST_F(provider, a_token_that_would_break_a_header_is_refused)
{
    static const char *const bad[] = { "session\r\nX: y", "session\x01", "sessi\xc3\xb6n" };
    char url[96], path[320];
    snprintf(url, sizeof(url), "%s/v1/credentials", f->url);
    snprintf(path, sizeof(path), "%.300s/token", test_directory());
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    assert_int_equal(find(f, "https://b.s3.amazonaws.com/"), STORE_PROVIDER_CONTAINER);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", bad[i], 1);
        assert_int_equal(store_provider_read(&f->provider, &f->credentials, &f->err), KILN_INVALID);
        assert_null(strstr(f->err.text, "ses"));
        must(fs_replace_file(path, bytes_of_text(bad[i]), 0600, &f->err), f->err);
        setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
        assert_int_equal(store_provider_read(&f->provider, &f->credentials, &f->err), KILN_INVALID);
        unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    }
    assert_int_equal(f->server.requests, 0);
}

TEST_F(provider, a_token_is_not_sent_to_another_machine_without_encryption)
{
    KILN_AUTO(url) struct url url = { 0 };
    must(url_parse("https://s3.eu-west-3.amazonaws.com/b", &url, &f->err), f->err);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://192.0.2.1/", 1);
    assert_int_equal(store_provider_find(&url, &f->provider, &f->err), KILN_INVALID);
}

TEST_F(provider, an_answer_without_whole_credentials_changes_nothing)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[",
        "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"secret\"}",
        "{\"AccessKeyId\":\"A\",\"Expiration\":\"2026-11-30T10:00:00Z\"}",
        "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"secret\",\"Expiration\":\"soon\"}",
        "{\"AccessKeyId\":\"A\\nB\",\"SecretAccessKey\":\"secret\"," EXPIRATION "}",
        "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"secret\",\"Token\":\"a b\"," EXPIRATION "}",
    };
    find_instance(f);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        f->answer = bad[i];
        assert_int_equal(store_provider_read(&f->provider, &f->credentials, &f->err),
                         KILN_UNAVAILABLE);
        assert_null(strstr(f->err.text, "secret"));
        assert_string_equal(f->credentials.id, "");
    }
}

TEST(plain, times_of_stores_are_read)
{
    uint64_t time = 0;
    assert_true(iso_time_read("2026-11-30T10:00:00Z", &time));
    assert_int_equal(time, 1796032800);
    assert_true(iso_time_read("2026-11-30T10:00:01.250Z", &time));
    assert_int_equal(time, 1796032801);
    assert_false(iso_time_read("2026-11-30T10:00:00", &time));
    assert_false(iso_time_read("2026-11-30", &time));
    assert_false(iso_time_read("", &time));
}
