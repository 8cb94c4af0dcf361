/* SPDX-License-Identifier: MIT */
#include "common/base/url_text.h"
#include "tests/support/test.h"

static void expect_shown(const char *url, const char *shown)
{
    char text[128];
    url_without_secrets(url, text, sizeof(text));
    assert_string_equal(text, shown);
}

TEST(plain, urls_are_shown_without_credentials_and_query)
{
    expect_shown("https://alice:secret@host:8443/a/b?sig=secret#x", "https://host:8443/a/b");
    expect_shown("HTTP://alice@host", "HTTP://host");
    expect_shown("https://a:p@ss@host/a@b", "https://host/a@b");
    expect_shown("https://host?sig=a@b", "https://host");
    expect_shown("https://host/fleet", "https://host/fleet");
}

TEST(plain, other_texts_are_shown_unchanged)
{
    expect_shown("file:///srv/a?b@c", "file:///srv/a?b@c");
    expect_shown("/srv/fleet#1", "/srv/fleet#1");
    expect_shown("", "");
}
