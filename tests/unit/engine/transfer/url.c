/* SPDX-License-Identifier: MIT */
#include "engine/transfer/url.h"

#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static struct url parsed(const char *text)
{
    struct url url;
    struct kiln_err err = KILN_ERR_INIT;
    must(url_parse(text, &url, &err), err);
    return url;
}

TEST(plain, a_url_name_is_the_last_part_of_its_path)
{
    static const struct {
        const char *text, *name;
    } cases[] = {
        { "https://example.org/a/b/gfx90a68.kdb.bz2", "gfx90a68.kdb.bz2" },
        { "http://example.org:81/gfx906%5f60.kdb?version=3#top", "gfx906_60.kdb" },
        { "file:///data/my%20packages/gfx90a68.kdb", "gfx90a68.kdb" },
        { "https://example.org/", "" },
        { "https://example.org", "" },
        { "https://example.org/packages/", "" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct url url = parsed(cases[i].text);
        assert_string_equal(url.name, cases[i].name);
        url_done(&url);
    }
}

TEST(plain, unescapes_the_path_of_a_file)
{
    struct url url = parsed("file:///data/my%20packages/gfx90a68.kdb");

    assert_int_equal(url.scheme, URL_FILE);
    assert_string_equal(url.path, "/data/my packages/gfx90a68.kdb");

    url_done(&url);
}

TEST(plain, shows_neither_credentials_nor_query)
{
    struct url url = parsed("https://joe:geheim@example.org/p/x.kdb?X-Signature=hush#part");

    assert_string_equal(url.shown, "https://example.org/p/x.kdb");
    assert_says(url.text, "joe:geheim@");
    assert_says(url.text, "X-Signature=hush");

    url_done(&url);
}

TEST(plain, a_manifest_url_keeps_the_query)
{
    struct url url = parsed("https://joe:geheim@example.org/p/x.kdb?token=hush"), beside;
    struct kiln_err err = KILN_ERR_INIT;

    must(url_beside(&url, ".manifest", &beside, &err), err);

    assert_string_equal(beside.text, "https://joe:geheim@example.org/p/x.kdb.manifest?token=hush");
    assert_string_equal(beside.name, "x.kdb.manifest");
    url_done(&beside);
    url_done(&url);
}

TEST(plain, an_invalid_url_is_refused_without_repeating_it)
{
    static const char *const texts[] = {
        "",
        "gfx90a68.kdb",
        "/data/hush.kdb",
        "ftp://joe:hush@example.org/x.kdb",
        "scp://hush@example.org/x.kdb",
        "http://",
        "http://joe:hush@example.org:port/x.kdb",
        "http://exa mple.org/hush",
        "file://otherhost/hush.kdb",
        "https://example.org/hush%00.kdb",
        "https://example.org/hush%0a.kdb",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct url url;
        struct kiln_err err = KILN_ERR_INIT;
        if (url_parse(texts[i], &url, &err) != KILN_INVALID)
            fail_msg("'%s' was taken", texts[i]);
        assert_null(strstr(err.text, "hush"));
        assert_says(err.text, "https");
    }
}

TEST(plain, a_url_that_is_too_long_is_refused)
{
    char text[URL_MAX + 2];
    struct url url;
    struct kiln_err err = KILN_ERR_INIT;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(text, "http://h/", 9);

    assert_int_equal(url_parse(text, &url, &err), KILN_INVALID);

    assert_says(err.text, "4096");
}

TEST(plain, a_url_with_an_overlong_name_has_no_name)
{
    char text[URL_NAME_MAX + 16] = "http://h/";
    memset(text + 9, 'a', URL_NAME_MAX);

    struct url url = parsed(text);

    assert_string_equal(url.name, "");
    url_done(&url);
}
