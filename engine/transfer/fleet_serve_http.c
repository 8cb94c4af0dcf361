/* SPDX-License-Identifier: MIT */
#include "common/base/cleanup.h"
#include "engine/transfer/fleet_ranges.h"
#include "engine/transfer/fleet_serve.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUESTS_MAX 256u   /* that are read from kilnd at a time */
#define CONNECTIONS_MAX 16L /* with HTTP/1.1; HTTP/2 needs one */
#define CONNECT_MS 5000L
#define IDLE_MS 1000
/* kilnd sends the requests of one job one after the other. Waiting this long for the next one lets
 * them be joined. */
#define LINGER_US 1000

struct download {
    CURL *curl;
    struct fleet_range range; /* its requests are owned */
    struct buffer body;       /* owned */
    uint64_t size_max;
    char range_text[48];
};

struct http_server {
    int socket;
    const struct url *url;
    CURLM *multi;
    unsigned running;
};

static bool is_ranged(const struct download *d) { return d->range.end > d->range.first; }

static uint64_t expected_size(const struct download *d) { return d->range.end - d->range.first; }

static void destroy_download(struct download *d)
{
    curl_easy_cleanup(d->curl);
    buffer_done(&d->body);
    free(d->range.requests);
    free(d);
}

static long status_of(const struct download *d)
{
    long status = 0;
    curl_easy_getinfo(d->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* The body of an error is not stored. A server that ignores the range sends the whole file, which
 * may be large. */
static size_t on_body(char *data, size_t one, size_t size, void *context)
{
    struct download *d = context;
    (void)one;
    long status = status_of(d);
    if (status != (is_ranged(d) ? 206 : 200))
        return status >= 300 ? size : CURL_WRITEFUNC_ERROR;
    buffer_put(&d->body, data, size);
    return d->body.failed ? CURL_WRITEFUNC_ERROR : size;
}

static enum fleet_get_end end_of_status(const struct download *d)
{
    long status = status_of(d);
    if (status == 200 || status == 206) {
        bool is_whole =
            is_ranged(d) ? status == 206 && d->body.size == expected_size(d) : status == 200;
        return is_whole ? FLEET_GET_DONE : FLEET_GET_MALFORMED;
    }
    if (status == 404 || status == 410)
        return FLEET_GET_ABSENT;
    if (status == 401 || status == 403 || status == 407)
        return FLEET_GET_FORBIDDEN;
    if (status == 416) /* the file is shorter than its index says */
        return FLEET_GET_MALFORMED;
    return status == 408 || status == 429 || status >= 500 ? FLEET_GET_BROKEN : FLEET_GET_REFUSED;
}

static enum fleet_get_end end_of_transfer(const struct download *d, CURLcode failed)
{
    switch (failed) {
    case CURLE_OK: return end_of_status(d);
    case CURLE_OPERATION_TIMEDOUT: return FLEET_GET_TIMED_OUT;
    case CURLE_PARTIAL_FILE:
    case CURLE_WRITE_ERROR:
    case CURLE_FILESIZE_EXCEEDED:
    case CURLE_WEIRD_SERVER_REPLY: return FLEET_GET_MALFORMED;
    default: return FLEET_GET_UNREACHABLE;
    }
}

static void answer_download(const struct http_server *s, const struct download *d,
                            enum fleet_get_end end)
{
    for (size_t i = 0; i < d->range.count; i++) {
        const struct fleet_request *request = &d->range.requests[i];
        struct bytes content = buffer_view(&d->body);
        if (end == FLEET_GET_DONE && is_ranged(d))
            content =
                bytes_of(content.data + (request->offset - d->range.first), (size_t)request->size);
        fleet_serve_answer(s->socket, request, end, content);
    }
}

/* OpenSSL uses SSL_CERT_FILE and SSL_CERT_DIR, but libcurl overrides them. */
static bool set_authorities(CURL *curl)
{
    const char *file = getenv("SSL_CERT_FILE"), *directory = getenv("SSL_CERT_DIR");
    return (!file || !*file || !curl_easy_setopt(curl, CURLOPT_CAINFO, file)) &&
           (!directory || !*directory || !curl_easy_setopt(curl, CURLOPT_CAPATH, directory));
}

/* No redirects: they would send a request, and later credentials, to another server. */
static bool set_options(struct download *d)
{
    CURL *curl = d->curl;
    return !curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_USERAGENT, "kiln/" KILN_VERSION) &&
           !curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS) &&
           !curl_easy_setopt(curl, CURLOPT_PIPEWAIT, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
           !curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)FLEET_GET_MAX_MS) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEDATA, d) &&
           !curl_easy_setopt(curl, CURLOPT_PRIVATE, d) && set_authorities(curl);
}

static bool set_place(struct download *d, const struct url *root)
{
    KILN_AUTO(url) struct url url = { 0 };
    struct kiln_err ignored = KILN_ERR_INIT;
    char name[FLEET_GET_NAME_MAX + 1];
    /* The name of a URL is empty if its path ends with a slash. */
    snprintf(name, sizeof(name), "%s%s", root->name[0] ? "/" : "", d->range.requests->name);
    if (url_beside(root, name, &url, &ignored))
        return false;
    if (is_ranged(d))
        snprintf(d->range_text, sizeof(d->range_text), "%llu-%llu",
                 (unsigned long long)d->range.first, (unsigned long long)d->range.end - 1);
    return !curl_easy_setopt(d->curl, CURLOPT_URL, url.text) &&
           (!is_ranged(d) || !curl_easy_setopt(d->curl, CURLOPT_RANGE, d->range_text));
}

/* Takes a copy of the range's requests. Returns NULL if memory ran out. */
static struct download *create_download(const struct fleet_range *range)
{
    struct download *d = calloc(1, sizeof(*d));
    struct fleet_request *requests = calloc(range->count, sizeof(*requests));
    if (!d || !requests) {
        free(d);
        free(requests);
        return NULL;
    }
    memcpy(requests, range->requests, range->count * sizeof(*requests));
    d->range = *range;
    d->range.requests = requests;
    d->curl = curl_easy_init();
    buffer_init(&d->body, (size_t)(is_ranged(d) ? expected_size(d) : range->requests->size_max));
    return d;
}

static bool start_download(struct http_server *s, const struct fleet_range *range)
{
    struct download *d = create_download(range);
    if (!d)
        return false;
    if (d->curl && set_options(d) && set_place(d, s->url) &&
        curl_multi_add_handle(s->multi, d->curl) == CURLM_OK) {
        s->running++;
        return true;
    }
    destroy_download(d);
    return false;
}

static void refuse_range(const struct http_server *s, const struct fleet_range *range,
                         enum fleet_get_end end)
{
    for (size_t i = 0; i < range->count; i++)
        fleet_serve_answer(s->socket, &range->requests[i], end, (struct bytes){ 0 });
}

static void start_all(struct http_server *s, struct fleet_request *requests, size_t count)
{
    fleet_ranges_sort(requests, count);
    while (count > 0) {
        const struct fleet_range range = fleet_ranges_first(requests, count);
        if (range.end - range.first > FLEET_RANGE_SIZE_MAX)
            refuse_range(s, &range, FLEET_GET_MALFORMED);
        else if (!start_download(s, &range))
            refuse_range(s, &range, FLEET_GET_BROKEN);
        requests += range.count;
        count -= range.count;
    }
}

/* Reads the requests that are there. Returns KILN_UNAVAILABLE after the last one. */
static enum kiln_code read_requests(const struct http_server *s, struct fleet_request *requests,
                                    size_t *count, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    while (!rc && *count < REQUESTS_MAX) {
        rc = fleet_receive_request(s->socket, &requests[*count], err);
        *count += !rc;
    }
    return rc == KILN_BUSY ? KILN_OK : rc;
}

static enum kiln_code take_requests(struct http_server *s, struct kiln_err *err)
{
    KILN_AUTO(mem) struct fleet_request *requests = calloc(REQUESTS_MAX, sizeof(*requests));
    size_t count = 0;
    if (!requests)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for requests of kilnd");
    enum kiln_code rc = read_requests(s, requests, &count, err);
    if (!rc && count > 0) {
        usleep(LINGER_US);
        rc = read_requests(s, requests, &count, err);
    }
    start_all(s, requests, count);
    return rc;
}

static void reap_downloads(struct http_server *s)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(s->multi, &left))) {
        struct download *d = NULL;
        CURLcode failed = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &d);
        curl_multi_remove_handle(s->multi, d->curl);
        s->running--;
        answer_download(s, d, end_of_transfer(d, failed));
        destroy_download(d);
    }
}

static enum kiln_code serve_requests(struct http_server *s, struct kiln_err *err)
{
    for (;;) {
        struct curl_waitfd kilnd = { .fd = s->socket, .events = CURL_WAIT_POLLIN };
        int running;
        if (curl_multi_poll(s->multi, &kilnd, 1, IDLE_MS, NULL) != CURLM_OK)
            return kiln_fail(err, KILN_IO, "libcurl cannot wait for the server");
        enum kiln_code rc = kilnd.revents ? take_requests(s, err) : KILN_OK;
        if (rc)
            return rc == KILN_UNAVAILABLE ? KILN_OK : rc;
        curl_multi_perform(s->multi, &running);
        reap_downloads(s);
    }
}

/* The downloads that run when kilnd closes the socket end with the process. */
enum kiln_code fleet_serve_http(int socket, const struct url *url, struct kiln_err *err)
{
    struct http_server server = { .socket = socket, .url = url, .multi = curl_multi_init() };
    if (!server.multi ||
        curl_multi_setopt(server.multi, CURLMOPT_MAX_HOST_CONNECTIONS, CONNECTIONS_MAX))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for requests to the server");
    return serve_requests(&server, err);
}
