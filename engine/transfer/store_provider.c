/* SPDX-License-Identifier: MIT */
#include "engine/transfer/store_provider.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "common/base/json.h"
#include "engine/transfer/iso_time.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define INSTANCE_URL "http://169.254.169.254"
#define CONTAINER_URL "http://169.254.170.2"
#define ROLES "/latest/meta-data/iam/security-credentials/"
#define CONNECT_MS 1000L
#define ANSWER_MS 2000L
#define ANSWER_MAX (16u << 10)
#define HEADER_MAX 4096

static void curlu_auto(CURLU **handle) { curl_url_cleanup(*handle); }
static void curl_auto(CURL **handle) { curl_easy_cleanup(*handle); }
static void text_auto(char **text) { curl_free(*text); }
static void slist_auto(struct curl_slist **list) { curl_slist_free_all(*list); }

/* ---- which server ---- */

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcasecmp(text + size - end_size, end) == 0;
}

/* Returns the host in a URL, or NULL. The caller frees it with curl_free. */
static char *host_of(const char *url)
{
    char *host = NULL;
    KILN_AUTO(curlu) CURLU *handle = curl_url();
    if (!handle || curl_url_set(handle, CURLUPART_URL, url, 0) ||
        curl_url_get(handle, CURLUPART_HOST, &host, 0))
        return NULL;
    return host;
}

/* Returns whether a label of the host is "s3" or begins with "s3-". */
static bool has_s3_label(const char *host)
{
    for (const char *label = host; label; label = strchr(label, '.')) {
        label += *label == '.';
        if (strncasecmp(label, "s3", 2) == 0 && (label[2] == '.' || label[2] == '-'))
            return true;
    }
    return false;
}

/* Customers' own servers also have names below amazonaws.com. A load balancer may even have such a
 * label, but its owner gets no certificate for its name. */
static bool is_amazon(const struct url *store)
{
    KILN_AUTO(text) char *host = host_of(store->text);
    return host && store->scheme == URL_HTTPS && has_s3_label(host) &&
           (ends_with(host, ".amazonaws.com") || ends_with(host, ".amazonaws.com.cn"));
}

/* Returns whether the token for the server may be sent to |url|: encrypted, or not beyond the
 * machine. The addresses are those of ECS and EKS. */
static bool is_safe(const char *url)
{
    static const char *const hosts[] = { "127.0.0.1", "localhost", "169.254.170.2",
                                         "169.254.170.23", "[fd00:ec2::23]" };
    KILN_AUTO(text) char *host = host_of(url);
    bool is_near = strncasecmp(url, "https://", 8) == 0;
    for (size_t i = 0; host && i < sizeof(hosts) / sizeof(hosts[0]); i++)
        is_near |= strcasecmp(host, hosts[i]) == 0;
    return host && is_near;
}

static enum kiln_code set_url(struct store_provider *p, enum store_provider_kind kind,
                              const char *base, const char *rest, struct kiln_err *err)
{
    int size = snprintf(p->url, sizeof(p->url), "%s%s", base, rest);
    if (size < 0 || (size_t)size >= sizeof(p->url))
        return kiln_fail(err, KILN_INVALID, "the URL for credentials is too long");
    while (kind == STORE_PROVIDER_INSTANCE && ends_with(p->url, "/"))
        p->url[strlen(p->url) - 1] = '\0';
    p->kind = kind;
    return KILN_OK;
}

static enum kiln_code find_container(struct store_provider *p, struct kiln_err *err)
{
    const char *whole = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *path = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    if (path && *path != '/')
        return kiln_fail(err, KILN_INVALID,
                         "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
    if (path)
        return set_url(p, STORE_PROVIDER_CONTAINER, CONTAINER_URL, path, err);
    if (!whole)
        return KILN_OK;
    if (!is_safe(whole))
        return kiln_fail(err, KILN_INVALID,
                         "AWS_CONTAINER_CREDENTIALS_FULL_URI names another machine without https");
    return set_url(p, STORE_PROVIDER_CONTAINER, whole, "", err);
}

enum kiln_code store_provider_find(const struct url *store, struct store_provider *ret_provider,
                                   struct kiln_err *err)
{
    const char *endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *disabled = variable("AWS_EC2_METADATA_DISABLED");
    *ret_provider = (struct store_provider){ .kind = STORE_PROVIDER_NONE };
    if (!endpoint && !is_amazon(store))
        return KILN_OK;
    enum kiln_code rc = find_container(ret_provider, err);
    if (rc || ret_provider->kind || (disabled && strcasecmp(disabled, "true") == 0))
        return rc;
    return set_url(ret_provider, STORE_PROVIDER_INSTANCE, endpoint ? endpoint : INSTANCE_URL, "",
                   err);
}

/* ---- one request ---- */

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
    struct buffer *body = context;
    (void)one;
    buffer_put(body, data, size);
    return body->failed ? CURL_WRITEFUNC_ERROR : size;
}

static bool set_options(CURL *curl, const char *url, bool is_put, struct buffer *body)
{
    return !curl_easy_setopt(curl, CURLOPT_URL, url) &&
           !curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(curl, CURLOPT_PROXY, "") &&
           !curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
           !curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ANSWER_MS) &&
           !curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, is_put ? "PUT" : "GET") &&
           !curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
}

/* Sends a request with one header, and ends the answer with a zero byte. The body may be a secret,
 * so no message contains it. */
static enum kiln_code ask(const char *url, bool is_put, const char *header, struct buffer *body,
                          struct kiln_err *err)
{
    long status = 0;
    KILN_AUTO(curl) CURL *curl = curl_easy_init();
    KILN_AUTO(slist) struct curl_slist *headers = *header ? curl_slist_append(NULL, header) : NULL;
    if (!curl || (*header && !headers) || !set_options(curl, url, is_put, body) ||
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to request credentials");
    CURLcode failed = curl_easy_perform(curl);
    if (failed)
        return kiln_fail(err, KILN_UNAVAILABLE, "cannot get credentials from '%s': %s", url,
                         curl_easy_strerror(failed));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return kiln_fail(err, KILN_UNAVAILABLE, "cannot get credentials from '%s': status %ld", url,
                         status);
    buffer_put(body, "", 1);
    return body->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for credentials") : KILN_OK;
}

static void wipe(struct buffer *body)
{
    if (body->data)
        explicit_bzero(body->data, body->capacity);
    buffer_done(body);
}

static const char *text_of(struct buffer *body) { return (const char *)body->data; }

/* ---- the answer ---- */

/* Returns whether a header may have the text: it has only ASCII characters from |first| to '~'. */
static bool is_plain(const char *text, char first)
{
    for (; *text; text++)
        if (*text < first || *text > '~')
            return false;
    return true;
}

static bool copy(const struct json *json, const char *name, char *to, size_t size)
{
    return snprintf(to, size, "%s", json_get_text(json, name, "")) < (int)size;
}

static enum kiln_code read_answer(struct bytes body, struct store_credentials *credentials,
                                  struct kiln_err *err)
{
    KILN_AUTO(json) struct json *json = NULL;
    struct store_credentials found = *credentials;
    struct kiln_err hidden = KILN_ERR_INIT; /* its text may have a part of the secret */
    bool is_whole = !json_parse(body, "credentials", &json, &hidden) &&
                    copy(json, "AccessKeyId", found.id, sizeof(found.id)) &&
                    copy(json, "SecretAccessKey", found.secret, sizeof(found.secret)) &&
                    copy(json, "Token", found.token, sizeof(found.token)) && found.id[0] &&
                    found.secret[0] && is_plain(found.id, '!') && is_plain(found.token, '!') &&
                    iso_time_read(json_get_text(json, "Expiration", ""), &found.expires_s);
    if (is_whole)
        *credentials = found;
    store_credentials_wipe(&found);
    return is_whole ? KILN_OK
                    : kiln_fail(err, KILN_UNAVAILABLE,
                                "the server for credentials gave no complete credentials");
}

static enum kiln_code ask_credentials(const char *url, const char *header,
                                      struct store_credentials *credentials, struct kiln_err *err)
{
    struct buffer body;
    buffer_init(&body, ANSWER_MAX);
    enum kiln_code rc = ask(url, false, header, &body, err);
    if (!rc)
        rc = read_answer(bytes_of(body.data, body.size - 1), credentials, err);
    wipe(&body);
    return rc;
}

/* ---- an instance ---- */

static enum kiln_code ask_session(const struct store_provider *p, char header[HEADER_MAX],
                                  struct kiln_err *err)
{
    char url[sizeof(p->url) + 64];
    struct buffer token;
    buffer_init(&token, HEADER_MAX / 2);
    snprintf(url, sizeof(url), "%s/latest/api/token", p->url);
    enum kiln_code rc = ask(url, true, "X-aws-ec2-metadata-token-ttl-seconds: 60", &token, err);
    if (!rc)
        snprintf(header, HEADER_MAX, "X-aws-ec2-metadata-token: %s", text_of(&token));
    wipe(&token);
    return rc;
}

/* Finds the URL of the role's credentials. The server lists the instance's role, of which there is
 * at most one. */
static enum kiln_code ask_role(const struct store_provider *p, const char *header, char *url,
                               size_t size, struct kiln_err *err)
{
    struct buffer role;
    buffer_init(&role, 256);
    snprintf(url, size, "%s" ROLES, p->url);
    enum kiln_code rc = ask(url, false, header, &role, err);
    size_t length = rc ? 0 : strcspn(text_of(&role), "\r\n");
    if (!rc && length == 0)
        rc = kiln_fail(err, KILN_UNAVAILABLE, "the instance has no role");
    if (!rc)
        snprintf(url, size, "%s" ROLES "%.*s", p->url, (int)length, text_of(&role));
    buffer_done(&role);
    return rc;
}

static enum kiln_code read_instance(const struct store_provider *p,
                                    struct store_credentials *credentials, struct kiln_err *err)
{
    char header[HEADER_MAX], url[sizeof(p->url) + 512];
    enum kiln_code rc = ask_session(p, header, err);
    if (!rc)
        rc = ask_role(p, header, url, sizeof(url), err);
    if (!rc)
        rc = ask_credentials(url, header, credentials, err);
    explicit_bzero(header, sizeof(header));
    return rc;
}

/* ---- a container ---- */

/* Reads the file each time, because its token is replaced from time to time. */
static enum kiln_code read_token(const char *path, char text[HEADER_MAX], struct kiln_err *err)
{
    struct buffer token;
    buffer_init(&token, HEADER_MAX / 2);
    enum kiln_code rc = fs_read_file(path, HEADER_MAX / 2, &token, err);
    size_t size = rc ? 0 : token.size;
    while (size > 0 && strchr("\r\n", text_of(&token)[size - 1]))
        size--;
    snprintf(text, HEADER_MAX, "%.*s", (int)size, size > 0 ? text_of(&token) : "");
    wipe(&token);
    return rc;
}

/* The token may have a space, as in "Basic abcd". */
static enum kiln_code write_authorization(const char *token, char header[HEADER_MAX],
                                          struct kiln_err *err)
{
    if (!is_plain(token, ' '))
        return kiln_fail(err, KILN_INVALID,
                         "the token for the credentials of the container is not plain ASCII text");
    snprintf(header, HEADER_MAX, "Authorization: %.*s", HEADER_MAX - 32, token);
    return KILN_OK;
}

static enum kiln_code read_container(const struct store_provider *p,
                                     struct store_credentials *credentials, struct kiln_err *err)
{
    const char *path = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char header[HEADER_MAX] = "", text[HEADER_MAX] = "";
    enum kiln_code rc = path ? read_token(path, text, err) : KILN_OK;
    if (!rc && (path || token))
        rc = write_authorization(path ? text : token, header, err);
    if (!rc)
        rc = ask_credentials(p->url, header, credentials, err);
    explicit_bzero(header, sizeof(header));
    explicit_bzero(text, sizeof(text));
    return rc;
}

enum kiln_code store_provider_read(const struct store_provider *provider,
                                   struct store_credentials *credentials, struct kiln_err *err)
{
    return provider->kind == STORE_PROVIDER_CONTAINER ? read_container(provider, credentials, err)
                                                      : read_instance(provider, credentials, err);
}
