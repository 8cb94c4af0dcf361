/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/test_buffer.h"

#include "engine/transfer/store_listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY "v1/k"
#define LIST "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3/\">"
#define END "</ListBucketResult>"
#define FILE(key) "<Contents><Key>" key "</Key></Contents>"
#define LAST "<IsTruncated>false</IsTruncated>"
#define MORE "<IsTruncated>true</IsTruncated>"

static void expect_url(const char *root, const char *token, const char *expected)
{
    KILN_AUTO(url) struct url url = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    char text[STORE_URL_MAX];
    must(url_parse(root, &url, &err), err);
    assert_true(store_list_url(&url, DIRECTORY, token, text));
    assert_string_equal(text, expected);
}

static void expect_file_url(const char *root, const char *expected)
{
    KILN_AUTO(url) struct url url = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    char text[STORE_URL_MAX];
    must(url_parse(root, &url, &err), err);
    assert_true(store_file_url(&url, "v1/k/00", text));
    assert_string_equal(text, expected);
}

/* A store signs the path in this encoding, whatever the client has sent. */
TEST(plain, the_path_of_a_file_is_encoded_as_signatures_need)
{
    expect_file_url("https://s3.example/b", "https://s3.example/b/v1/k/00");
    expect_file_url("https://s3.example/b/", "https://s3.example/b/v1/k/00");
    expect_file_url("https://s3.example", "https://s3.example/v1/k/00");
    expect_file_url("https://s3.example:8443/b/k\xc3\xbchl+a%20b",
                    "https://s3.example:8443/b/k%C3%BChl%2Ba%20b/v1/k/00");
    expect_file_url("https://s3.example/b/k%c3%bchl~", "https://s3.example/b/k%C3%BChl~/v1/k/00");
    expect_file_url("https://user:word@mirror.example/f?token=1",
                    "https://user:word@mirror.example/f/v1/k/00?token=1");
}

TEST(plain, the_bucket_is_the_first_part_of_the_path)
{
    expect_url("https://ceph.example:8443/bucket/a%20b/fleet", "",
               "https://ceph.example:8443/bucket"
               "?delimiter=%2F&list-type=2&prefix=a%20b%2Ffleet%2Fv1%2Fk%2F");
    expect_url("http://127.0.0.1/bucket/", "",
               "http://127.0.0.1/bucket?delimiter=%2F&list-type=2&prefix=v1%2Fk%2F");
}

TEST(plain, the_bucket_may_be_in_the_name_of_amazons_host)
{
    expect_url("https://bucket.s3.eu-central-1.amazonaws.com/fleet", "",
               "https://bucket.s3.eu-central-1.amazonaws.com/"
               "?delimiter=%2F&list-type=2&prefix=fleet%2Fv1%2Fk%2F");
    expect_url("https://s3.eu-central-1.amazonaws.com/bucket/fleet", "",
               "https://s3.eu-central-1.amazonaws.com/bucket"
               "?delimiter=%2F&list-type=2&prefix=fleet%2Fv1%2Fk%2F");
}

TEST(plain, the_token_is_encoded)
{
    expect_url("http://127.0.0.1/b/t", "a+/=&~",
               "http://127.0.0.1/b?continuation-token=a%2B%2F%3D%26~"
               "&delimiter=%2F&list-type=2&prefix=t%2Fv1%2Fk%2F");
}

TEST(plain, a_url_without_a_bucket_cannot_be_listed)
{
    KILN_AUTO(url) struct url url = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    char text[STORE_URL_MAX];
    must(url_parse("http://127.0.0.1/", &url, &err), err);
    assert_false(store_list_url(&url, DIRECTORY, "", text));
}

struct fixture {
    struct buffer names;
    char token[FLEET_TOKEN_MAX];
};

SET_UP(set_up) { test_buffer(&f->names, 1u << 20); }
FIXTURE(listing, set_up, NULL);

static bool read_page(struct fixture *f, const char *page)
{
    buffer_clear(&f->names);
    return store_page_read(bytes_of_text(page), DIRECTORY, &f->names, f->token);
}

static void expect_names(struct fixture *f, const char *page, const char *names)
{
    assert_true(read_page(f, page));
    assert_true(bytes_equal_text(buffer_view(&f->names), names));
}

TEST_F(listing, names_of_files_and_directories_are_read)
{
    expect_names(f,
                 LIST "<Prefix>t/v1/k/</Prefix>" LAST
                      "<Contents><Key>t/v1/k/00ff</Key><Size>1</Size></Contents>"
                      "<Contents><LastModified>2026-11-30T10:00:00.000Z</LastModified>"
                      "<Size>4096</Size><Key>t/v1/k/00.idx</Key></Contents>"
                      "<CommonPrefixes><Prefix>t/v1/k/abc/</Prefix></CommonPrefixes>" END,
                 "00ff 1 18446744073709551615\n00.idx 4096 1796032800\nabc\n");
    assert_string_equal(f->token, "");
    expect_names(f, LIST LAST END, "");
}

TEST_F(listing, the_token_of_the_next_page_is_read)
{
    expect_names(f, LIST MORE "<NextContinuationToken>a&amp;b&#43;/=</NextContinuationToken>" END,
                 "");
    assert_string_equal(f->token, "a&b+/=");
}

TEST_F(listing, names_that_a_tree_does_not_have_are_left_out)
{
    expect_names(f,
                 LIST LAST FILE("t/v1/k/../x") FILE("t/v1/k/A") FILE("t/v1/k/a b")
                     FILE("t/v1/k/.writing") FILE("t/v1/i/00") FILE("00") FILE("") FILE("/")
                         FILE("k/00") FILE("t/v1/k/a&amp;") FILE("t/v1/k/") FILE("t/v1/k/ok") END,
                 "ok 0 18446744073709551615\n");
}

/* If a list that is cut off counted as complete, a compaction would leave out kernels. */
TEST_F(listing, what_is_not_a_whole_page_is_refused)
{
    static const char *const bad[] = {
        "",
        "<",
        "<Key>t/v1/k/00</Key>",
        "<html>" LAST "</html>",
        LIST,
        LIST "<Key>t/v1/k/00</Key>" END,
        LIST LAST "<Key>t/v1/k/00</Key>",
        LIST "<IsTruncated>maybe</IsTruncated>" END,
        LIST MORE END,
        LIST MORE "<NextContinuationToken></NextContinuationToken>" END,
        LIST MORE "<NextContinuationToken>a\nb</NextContinuationToken>" END,
        LIST MORE "<NextContinuationToken>a&evil;</NextContinuationToken>" END,
        LIST MORE "<NextContinuationToken>a&#x2</NextContinuationToken>" END,
        LIST MORE "<NextContinuationToken>abc",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (read_page(f, bad[i]))
            fail_msg("accepted '%s'", bad[i]);
}

TEST_F(listing, a_long_token_is_refused)
{
    char page[2 * FLEET_TOKEN_MAX], token[FLEET_TOKEN_MAX + 1];
    memset(token, 'a', FLEET_TOKEN_MAX);
    token[FLEET_TOKEN_MAX] = '\0';
    snprintf(page, sizeof(page), LIST MORE "<NextContinuationToken>%s</NextContinuationToken>" END,
             token);
    assert_false(read_page(f, page));
    snprintf(page, sizeof(page), LIST MORE "<NextContinuationToken>%s</NextContinuationToken>" END,
             token + 1);
    assert_true(read_page(f, page));
}

/* Each prefix has its own heap block, so that the address sanitizer finds a read beyond its end. */
TEST_F(listing, no_prefix_of_a_page_is_read_beyond_its_end)
{
    static const char page[] =
        LIST MORE "<NextContinuationToken>a&#x2B;</NextContinuationToken><Key>t/v1/k/00</Key>" END;
    for (size_t size = 0; size < sizeof(page); size++) {
        uint8_t *copy = malloc(size ? size : 1);
        assert_non_null(copy);
        memcpy(copy, page, size);
        buffer_clear(&f->names);
        (void)store_page_read(bytes_of(copy, size), DIRECTORY, &f->names, f->token);
        free(copy);
    }
}
