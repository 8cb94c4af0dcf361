/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/url.h"

#include "cli/kilnctl/new_file.h"
#include "common/base/json.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SHA256_DIGITS 64

bool url_is(const char *word)
{
    size_t scheme = 0;
    while (isalnum((unsigned char)word[scheme]) ||
           (scheme && strchr("+.-", word[scheme]) && word[scheme]))
        scheme++;
    return scheme > 1 && strncmp(word + scheme, "://", 3) == 0;
}

const char *url_label(const char *word, char text[URL_LABEL_MAX])
{
    if (!url_is(word))
        return new_file_name(word);
    const char *host = strstr(word, "://") + 3;
    size_t end = strcspn(host, "?#"), begin = end;
    while (begin > 0 && host[begin - 1] != '/')
        begin--;
    /* The text after the last slash is the file's name, unless this text contains '@': the slash is
     * then part of a password.  Without a slash, the URL has no file name. */
    bool named = begin > 0 && begin < end && !memchr(host + begin, '@', end - begin);
    snprintf(text, URL_LABEL_MAX, "%.*s", named ? (int)(end - begin) : INT_MAX,
             named ? host + begin : "the file");
    return text;
}

const char *url_shown(const char *word, char text[URL_LABEL_MAX])
{
    return url_is(word) ? url_label(word, text) : word;
}

int url_set_sha256(const char *given, struct json *ask, struct kiln_error *err)
{
    char small[SHA256_DIGITS + 1] = "";
    size_t size = strlen(given);
    if (size != SHA256_DIGITS || strspn(given, "0123456789abcdefABCDEF") != size)
        return cli_fail(err, KILN_E_INVALID,
                        "'%.80s' of --sha256 is not 64 hexadecimal digits, as sha256sum prints",
                        given);
    for (size_t i = 0; i < size; i++)
        small[i] = (char)tolower((unsigned char)given[i]);
    json_set_text(ask, "sha256", small);
    return KILN_E_OK;
}
