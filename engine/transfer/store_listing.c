/* SPDX-License-Identifier: MIT */
#include "engine/transfer/store_listing.h"

#include "common/base/units.h"
#include "engine/transfer/iso_time.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void curlu_auto(CURLU **handle) { curl_url_cleanup(*handle); }
static void text_auto(char **text) { curl_free(*text); }

/* ---- the URL ---- */

/* Appends |text| as Signature Version 4 encodes it. The characters in |plain| stay as they are,
 * like letters and digits. */
static void put_encoded_but(struct buffer *url, const char *text, const char *plain)
{
    char escaped[4];
    for (const char *at = text; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                        (byte >= '0' && byte <= '9') || strchr(plain, byte);
        snprintf(escaped, sizeof(escaped), "%%%02X", byte);
        buffer_put(url, is_plain ? at : escaped, is_plain ? 1 : 3);
    }
}

/* Appends the name or the value of a query's parameter. */
static void put_encoded(struct buffer *query, const char *text)
{
    put_encoded_but(query, text, "-._~");
}

static void put_text(struct buffer *query, const char *text)
{
    buffer_put(query, text, strlen(text));
}

/* Appends the query's parameters in the order that Signature Version 4 needs. */
static void put_query(struct buffer *query, const char *prefix, const char *directory,
                      const char *token)
{
    if (*token) {
        put_text(query, "continuation-token=");
        put_encoded(query, token);
        put_text(query, "&");
    }
    put_text(query, "delimiter=%2F&list-type=2&prefix=");
    put_encoded(query, prefix);
    put_encoded(query, *prefix ? "/" : "");
    put_encoded(query, directory);
    put_encoded(query, "/");
    buffer_put(query, "", 1);
}

/* Returns whether the URL has the bucket in the host's name, as some URLs of Amazon do. Otherwise
 * the bucket is the first part of the path. */
static bool is_bucket_in_host(const char *host)
{
    return strstr(host, ".s3.") || strstr(host, ".s3-");
}

/* Splits |path|, the path of the tree's URL. Leaves the bucket's part in |path|, and sets
 * |ret_prefix| to the prefix of the tree's names. */
static bool split_path(const char *host, char *path, const char **ret_prefix)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        path[--size] = '\0';
    if (is_bucket_in_host(host)) {
        *ret_prefix = path + 1;
        return true;
    }
    char *slash = strchr(path + 1, '/');
    *ret_prefix = slash ? slash + 1 : "";
    if (slash)
        *slash = '\0';
    return path[1] != '\0';
}

/* Writes the URL of a file on the handle's host. This function appends |path| and |query|, because
 * libcurl would change percent-encoded bytes to lower case (%2F to %2f), and the signature would
 * then be wrong. */
static bool write_url(CURLU *handle, const char *path, const char *query, char text[STORE_URL_MAX])
{
    KILN_AUTO(text) char *host = NULL;
    BUFFER_AUTO struct buffer encoded;
    buffer_init(&encoded, STORE_URL_MAX);
    put_encoded_but(&encoded, path, "-._~/");
    buffer_put(&encoded, "", 1);
    if (encoded.failed || curl_url_set(handle, CURLUPART_PATH, "/", 0) ||
        curl_url_set(handle, CURLUPART_QUERY, NULL, 0) ||
        curl_url_set(handle, CURLUPART_FRAGMENT, NULL, 0) ||
        curl_url_get(handle, CURLUPART_URL, &host, 0))
        return false;
    host[strlen(host) - 1] = '\0'; /* |path| begins with a slash, too */
    int size = snprintf(text, STORE_URL_MAX, "%s%s%s%s", host, (const char *)encoded.data,
                        *query ? "?" : "", query);
    return size > 0 && (size_t)size < STORE_URL_MAX;
}

bool store_file_url(const struct url *root, const char *name, char text[STORE_URL_MAX])
{
    char whole[URL_MAX + FLEET_FILE_NAME_MAX + 2];
    KILN_AUTO(curlu) CURLU *handle = curl_url();
    KILN_AUTO(text) char *path = NULL;
    KILN_AUTO(text) char *query = NULL;
    if (!handle || curl_url_set(handle, CURLUPART_URL, root->text, 0) ||
        curl_url_get(handle, CURLUPART_PATH, &path, CURLU_URLDECODE))
        return false;
    CURLUcode failed = curl_url_get(handle, CURLUPART_QUERY, &query, 0);
    if (failed && failed != CURLUE_NO_QUERY)
        return false;
    size_t size = strlen(path);
    bool has_slash = size > 0 && path[size - 1] == '/';
    snprintf(whole, sizeof(whole), "%s%s%s", path, has_slash ? "" : "/", name);
    return write_url(handle, whole, query ? query : "", text);
}

bool store_list_url(const struct url *root, const char *directory, const char *token,
                    char text[STORE_URL_MAX])
{
    KILN_AUTO(curlu) CURLU *handle = curl_url();
    KILN_AUTO(text) char *host = NULL;
    KILN_AUTO(text) char *path = NULL;
    const char *prefix;
    BUFFER_AUTO struct buffer query;
    buffer_init(&query, STORE_URL_MAX);
    if (!handle || curl_url_set(handle, CURLUPART_URL, root->text, 0) ||
        curl_url_get(handle, CURLUPART_HOST, &host, 0) ||
        curl_url_get(handle, CURLUPART_PATH, &path, CURLU_URLDECODE) ||
        !split_path(host, path, &prefix))
        return false;
    put_query(&query, prefix, directory, token);
    return !query.failed &&
           write_url(handle, is_bucket_in_host(host) ? "/" : path, (const char *)query.data, text);
}

/* ---- a page ---- */

static bool begins_with(struct bytes text, const char *start)
{
    size_t size = strlen(start);
    return text.size >= size && memcmp(text.data, start, size) == 0;
}

static struct bytes drop(struct bytes text, size_t size)
{
    return bytes_of(text.data + size, text.size - size);
}

/* Returns false unless |rest| begins with an element <name> that contains only text. */
static bool read_element(struct bytes rest, const char *name, struct bytes *ret_text)
{
    char start[64], end[64];
    snprintf(start, sizeof(start), "<%s>", name);
    snprintf(end, sizeof(end), "</%s>", name);
    if (!begins_with(rest, start))
        return false;
    rest = drop(rest, strlen(start));
    const uint8_t *close = rest.size ? memchr(rest.data, '<', rest.size) : NULL;
    if (!close)
        return false;
    *ret_text = bytes_of(rest.data, (size_t)(close - rest.data));
    return begins_with(drop(rest, ret_text->size), end);
}

static bool is_name(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        bool is_fine = (name.data[i] >= 'a' && name.data[i] <= 'z') ||
                       (name.data[i] >= '0' && name.data[i] <= '9') ||
                       (name.data[i] == '.' && i > 0);
        if (!is_fine)
            return false;
    }
    return name.size > 0 && name.size < FLEET_FILE_NAME_MAX;
}

static size_t find_last_slash(struct bytes text)
{
    size_t at = text.size;
    while (at > 0 && text.data[at - 1] != '/')
        at--;
    return at;
}

/* What one pass over the elements of a page found. */
struct page {
    const char *directory;
    struct buffer *names;
    struct bytes token, is_truncated;
    struct bytes size, modified; /* of the file whose elements are being read */
    struct bytes key;
};

static bool copy_text(struct bytes text, char *to, size_t size)
{
    return snprintf(to, size, "%.*s", (int)text.size, (const char *)text.data) < (int)size;
}

/* Appends " SIZE TIME". If the store does not say when the file was written, the file counts as one
 * that will be written in the far future, so it is not deleted because of its age. */
static void put_attributes(const struct page *page)
{
    char text[64], size_text[32], time_text[40];
    uint64_t size = 0, modified = UINT64_MAX;
    if (!copy_text(page->size, size_text, sizeof(size_text)) ||
        !units_parse_number(size_text, UINT64_MAX, &size))
        size = 0;
    if (!copy_text(page->modified, time_text, sizeof(time_text)) ||
        !iso_time_read(time_text, &modified))
        modified = UINT64_MAX;
    snprintf(text, sizeof(text), " %llu %llu", (unsigned long long)size,
             (unsigned long long)modified);
    buffer_put(page->names, text, strlen(text));
}

/* Appends the last part of |key| if it is in the directory. The text before the directory is not
 * examined, because the store may have escaped its characters in several ways. */
static void put_name(const struct page *page, struct bytes key, bool is_directory)
{
    size_t size = strlen(page->directory);
    if (is_directory && key.size > 0 && key.data[key.size - 1] == '/')
        key.size--;
    size_t at = find_last_slash(key);
    struct bytes name = drop(key, at);
    bool is_inside = at > size && memcmp(key.data + at - 1 - size, page->directory, size) == 0;
    if (!is_inside || !is_name(name))
        return;
    buffer_put(page->names, name.data, name.size);
    if (!is_directory)
        put_attributes(page);
    buffer_put(page->names, "\n", 1);
}

/* Returns the character for which the entity at the start of |rest| stands, such as '&' for
 * "&amp;". |ret_size| is the length of the entity. Returns 0 for an entity that is not in the
 * table. */
static char read_entity(struct bytes rest, size_t *ret_size)
{
    static const struct {
        const char *text;
        char character;
    } entities[] = { { "&amp;", '&' },   { "&lt;", '<' },  { "&gt;", '>' },   { "&quot;", '"' },
                     { "&apos;", '\'' }, { "&#34;", '"' }, { "&#39;", '\'' }, { "&#43;", '+' },
                     { "&#x2B;", '+' },  { "&#61;", '=' }, { "&#x3D;", '=' }, { "&#x2F;", '/' } };
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        *ret_size = strlen(entities[i].text);
        if (begins_with(rest, entities[i].text))
            return entities[i].character;
    }
    return '\0';
}

static bool copy_token(struct bytes text, char token[FLEET_TOKEN_MAX])
{
    size_t used = 0;
    while (text.size > 0 && used < FLEET_TOKEN_MAX - 1) {
        size_t size = 1;
        char one = *text.data == '&' ? read_entity(text, &size) : (char)*text.data;
        if (one < ' ' || one > '~')
            return false;
        token[used++] = one;
        text = drop(text, size);
    }
    token[used] = '\0';
    return used > 0 && text.size == 0;
}

/* A file's elements are within <Contents>, in any order. */
static void read_one(struct bytes rest, struct page *page)
{
    struct bytes text;
    if (begins_with(rest, "<Contents>"))
        page->key = page->size = page->modified = bytes_of("", 0);
    else if (begins_with(rest, "</Contents>"))
        put_name(page, page->key, false);
    else if (read_element(rest, "Key", &text))
        page->key = text;
    else if (read_element(rest, "Size", &text))
        page->size = text;
    else if (read_element(rest, "LastModified", &text))
        page->modified = text;
    else if (read_element(rest, "Prefix", &text))
        put_name(page, text, true);
    else if (read_element(rest, "NextContinuationToken", &text))
        page->token = text;
    else if (read_element(rest, "IsTruncated", &text))
        page->is_truncated = text;
}

bool store_page_read(struct bytes content, const char *directory, struct buffer *ret_names,
                     char token[FLEET_TOKEN_MAX])
{
    struct page page = { .directory = directory, .names = ret_names };
    bool is_list = false, is_complete = false;
    token[0] = '\0';
    while (content.size > 0) {
        const uint8_t *open = memchr(content.data, '<', content.size);
        if (!open)
            break;
        content = drop(content, (size_t)(open - content.data));
        is_list |= begins_with(content, "<ListBucketResult");
        is_complete |= begins_with(content, "</ListBucketResult>");
        read_one(content, &page);
        content = drop(content, 1);
    }
    if (!is_list || !is_complete || ret_names->failed)
        return false;
    return bytes_equal_text(page.is_truncated, "true")
               ? copy_token(page.token, token)
               : bytes_equal_text(page.is_truncated, "false");
}
