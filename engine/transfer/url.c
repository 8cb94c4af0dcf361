/* SPDX-License-Identifier: MIT */
#include "engine/transfer/url.h"

#include "common/base/cleanup.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

static void curlu_auto(CURLU **handle) { curl_url_cleanup(*handle); }
static void text_auto(char **text) { curl_free(*text); }

static enum kiln_code refuse_url(struct kiln_err *err, CURLUcode code)
{
    if (code == CURLUE_OUT_OF_MEMORY)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to parse a URL");
    return kiln_fail(err, KILN_INVALID,
                     "the text is not a URL (%s): a URL begins with https://, http:// or file://",
                     curl_url_strerror(code));
}

static enum kiln_code find_scheme(CURLU *handle, enum url_scheme *ret_scheme, struct kiln_err *err)
{
    static const char *const names[] = {
        [URL_HTTP] = "http", [URL_HTTPS] = "https", [URL_FILE] = "file"
    };
    KILN_AUTO(text) char *scheme = NULL;
    CURLUcode failed = curl_url_get(handle, CURLUPART_SCHEME, &scheme, 0);
    if (failed)
        return refuse_url(err, failed);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], scheme) != 0)
            continue;
        *ret_scheme = (enum url_scheme)i;
        return KILN_OK;
    }
    return kiln_fail(err, KILN_INVALID,
                     "kiln does not fetch '%s://' URLs, only https, http and file", scheme);
}

static void copy_name(const char *path, char name[URL_NAME_MAX])
{
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    name[0] = '\0';
    if (strlen(last) < URL_NAME_MAX)
        strcpy(name, last);
}

static enum kiln_code read_path(CURLU *handle, struct url *url, struct kiln_err *err)
{
    KILN_AUTO(text) char *path = NULL;
    CURLUcode failed = curl_url_get(handle, CURLUPART_PATH, &path, CURLU_URLDECODE);
    if (failed)
        return refuse_url(err, failed);
    copy_name(path, url->name);
    if (url->scheme != URL_FILE)
        return KILN_OK;
    url->path = strdup(path);
    return url->path ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory to parse a URL");
}

static enum kiln_code read_texts(CURLU *handle, struct url *url, struct kiln_err *err)
{
    KILN_AUTO(text) char *whole = NULL;
    KILN_AUTO(text) char *shown = NULL;
    CURLUcode failed = curl_url_get(handle, CURLUPART_URL, &whole, 0);
    static const CURLUPart secrets[] = { CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS,
                                         CURLUPART_QUERY, CURLUPART_FRAGMENT };
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]) && !failed; i++)
        failed = curl_url_set(handle, secrets[i], NULL, 0);
    if (!failed)
        failed = curl_url_get(handle, CURLUPART_URL, &shown, 0);
    if (failed)
        return refuse_url(err, failed);
    snprintf(url->shown, sizeof(url->shown), "%s", shown);
    url->text = strdup(whole);
    return url->text ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory to parse a URL");
}

static enum kiln_code split_url(CURLU *handle, struct url *ret_url, struct kiln_err *err)
{
    KILN_AUTO(url) struct url url = { 0 };
    enum kiln_code rc = find_scheme(handle, &url.scheme, err);
    if (!rc)
        rc = read_path(handle, &url, err);
    if (!rc)
        rc = read_texts(handle, &url, err);
    if (rc)
        return rc;
    *ret_url = url;
    url = (struct url){ 0 };
    return KILN_OK;
}

enum kiln_code url_parse(const char *text, struct url *ret_url, struct kiln_err *err)
{
    if (strlen(text) > URL_MAX)
        return kiln_fail(err, KILN_INVALID, "the URL is longer than %d bytes", URL_MAX);
    KILN_AUTO(curlu) CURLU *handle = curl_url();
    CURLUcode failed = handle ? curl_url_set(handle, CURLUPART_URL, text, 0) : CURLUE_OUT_OF_MEMORY;
    return failed ? refuse_url(err, failed) : split_url(handle, ret_url, err);
}

enum kiln_code url_beside(const struct url *url, const char *suffix, struct url *ret_url,
                          struct kiln_err *err)
{
    KILN_AUTO(curlu) CURLU *handle = curl_url();
    KILN_AUTO(text) char *path = NULL;
    char beside[URL_MAX + 64];
    CURLUcode failed =
        handle ? curl_url_set(handle, CURLUPART_URL, url->text, 0) : CURLUE_OUT_OF_MEMORY;
    if (!failed)
        failed = curl_url_get(handle, CURLUPART_PATH, &path, 0);
    if (failed)
        return refuse_url(err, failed);
    int size = snprintf(beside, sizeof(beside), "%s%s", path, suffix);
    if (size < 0 || (size_t)size >= sizeof(beside))
        return kiln_fail(err, KILN_INVALID, "the URL is longer than %d bytes", URL_MAX);
    failed = curl_url_set(handle, CURLUPART_PATH, beside, 0);
    return failed ? refuse_url(err, failed) : split_url(handle, ret_url, err);
}

void url_done(struct url *url)
{
    free(url->text);
    free(url->path);
    *url = (struct url){ 0 };
}
