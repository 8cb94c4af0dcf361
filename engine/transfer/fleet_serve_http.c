/* SPDX-License-Identifier: MIT */
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/transfer/fleet_serve.h"
#include "engine/transfer/fleet_window.h"
#include "engine/transfer/store_listing.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REQUESTS_MAX 256u   /* how many requests are read from kilnd before they are sent on */
#define CONNECTIONS_MAX 16L /* for HTTP/1.1; with HTTP/2, one connection is enough */
#define CONFLICTS_MAX 3u
#define CONNECT_MS 5000L
#define EXPECT_MS 100L
#define IDLE_MS 1000
/* Temporary credentials are renewed this time before they expire. EC2 has new ones by then. */
#define RENEW_BEFORE_S 240u
/* Pause after the provider was asked for credentials. As long as it has given none, each attempt
 * doubles the pause, because all requests of kilnd wait during an attempt. */
#define PROVIDER_PAUSE_NS 60000000000u
#define PROVIDER_PAUSE_MAX_NS 3600000000000u

/* One HTTP request to the server, which answers one or several requests of kilnd. */
struct exchange {
    struct fleet_window window; /* first; what is read, or the body of an upload */
    int socket;                 /* borrowed; to kilnd */
    CURL *curl;
    struct curl_slist *headers; /* owned */
    size_t sent;
    /* The put has a condition: the file must not exist or, for a replacement, must have a certain
     * tag. */
    bool is_conditional;
    bool is_quoted;     /* the tag is in quotation marks */
    unsigned conflicts; /* how many answers had status 409 */
};

struct http_server {
    int socket;
    const struct url *url;
    const struct store_provider *provider;
    struct store_credentials credentials;
    uint64_t provider_ns; /* before this time, the provider is not asked again */
    uint64_t provider_pause_ns;
    CURLM *multi;
    struct list windows;    /* the ranges that are read ahead, the oldest first */
    bool has_no_conditions; /* the store refuses conditional requests */
};

static bool is_ranged(const struct exchange *x)
{
    return x->window.range.end > x->window.range.first;
}

static uint64_t expected_size(const struct exchange *x)
{
    return x->window.range.end - x->window.range.first;
}

static bool is_put(const struct exchange *x) { return x->window.range.requests->is_put; }

static bool is_list(const struct exchange *x) { return x->window.range.requests->is_list; }

static bool is_remove(const struct exchange *x) { return x->window.range.requests->is_remove; }

static bool changes(const struct exchange *x) { return is_put(x) || is_remove(x); }

static void destroy_exchange(struct exchange *x)
{
    if (list_holds(&x->window.link))
        list_remove(&x->window.link);
    curl_easy_cleanup(x->curl);
    curl_slist_free_all(x->headers);
    buffer_done(&x->window.body);
    free(x->window.range.requests);
    free(x);
}

static long status_of(const struct exchange *x)
{
    long status = 0;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* Stores the body if the status is the expected one, and ignores the body of an error. If a range
 * was requested, but the server sends the whole file, which may be large, ends the transfer. */
static size_t on_body(char *data, size_t one, size_t size, void *context)
{
    struct exchange *x = context;
    (void)one;
    long status = status_of(x);
    if (changes(x))
        return size;
    if (status != (is_ranged(x) ? 206 : 200))
        return status >= 300 ? size : CURL_WRITEFUNC_ERROR;
    buffer_put(&x->window.body, data, size);
    x->window.heard_ns = clock_monotonic_ns();
    if (is_ranged(x) && !x->window.body.failed)
        fleet_window_answer(&x->window, x->socket);
    return x->window.body.failed ? CURL_WRITEFUNC_ERROR : size;
}

static size_t on_upload(char *to, size_t one, size_t size, void *context)
{
    struct exchange *x = context;
    (void)one;
    size_t left = x->window.body.size - x->sent;
    size_t part = size < left ? size : left;
    memcpy(to, x->window.body.data + x->sent, part);
    x->sent += part;
    return part;
}

/* libcurl calls this function when it must send the body again on another connection. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct exchange *x = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > x->window.body.size)
        return CURL_SEEKFUNC_FAIL;
    x->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static bool is_change_done(long status) { return status == 200 || status == 201 || status == 204; }

static bool is_read_done(const struct exchange *x, long status)
{
    return status == (is_ranged(x) ? 206 : 200);
}

static enum fleet_end end_of_status(const struct exchange *x)
{
    long status = status_of(x);
    if (changes(x) ? is_change_done(status) : is_read_done(x, status))
        return FLEET_END_DONE;
    if (status < 300)
        return FLEET_END_MALFORMED;
    if (is_put(x) && status == 412) /* another host has added or changed the file first */
        return FLEET_END_EXISTS;
    if (status == 404 || status == 410)
        return FLEET_END_ABSENT;
    if (status == 401 || status == 403 || status == 407)
        return FLEET_END_FORBIDDEN;
    if (status == 413)
        return FLEET_END_TOO_LARGE;
    if (status == 416) /* the file has fewer bytes than its index says */
        return FLEET_END_MALFORMED;
    if (status == 429 || status == 503) /* S3 calls the latter SlowDown */
        return FLEET_END_BUSY;
    bool is_temporary = status == 408 || status >= 500;
    return is_temporary ? FLEET_END_BROKEN : FLEET_END_REFUSED;
}

static enum fleet_end end_of_transfer(const struct exchange *x, CURLcode failed)
{
    switch (failed) {
    case CURLE_OK: return end_of_status(x);
    case CURLE_OPERATION_TIMEDOUT: return FLEET_END_TIMED_OUT;
    case CURLE_PARTIAL_FILE:
    case CURLE_WRITE_ERROR:
    case CURLE_FILESIZE_EXCEEDED:
    case CURLE_WEIRD_SERVER_REPLY: return FLEET_END_MALFORMED;
    default: return FLEET_END_UNREACHABLE;
    }
}

/* Copies the file's tag without its quotation marks. Leaves |tag| unchanged if the tag is weak
 * (W/), because a weak tag cannot be used in a condition. */
static void copy_tag(const struct exchange *x, char tag[FLEET_TAG_MAX])
{
    struct curl_header *header;
    if (curl_easy_header(x->curl, "ETag", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return;
    const char *value = header->value;
    size_t size = strlen(value);
    bool is_quoted = size > 2 && value[0] == '"' && value[size - 1] == '"';
    if (is_quoted) {
        value++;
        size -= 2;
    }
    bool is_usable = size > 0 && size < FLEET_TAG_MAX && strncmp(value, "W/", 2) != 0;
    for (size_t i = 0; is_usable && i < size; i++)
        is_usable = value[i] > ' ' && value[i] <= '~' && value[i] != '"';
    if (is_usable)
        snprintf(tag, FLEET_TAG_MAX, "%.*s", (int)size, value);
}

static void answer_list(const struct http_server *s, const struct exchange *x,
                        struct fleet_answer answer)
{
    const struct fleet_request *request = x->window.range.requests;
    BUFFER_AUTO struct buffer names;
    buffer_init(&names, STORE_PAGE_MAX);
    if (answer.end == FLEET_END_DONE &&
        !store_page_read(buffer_view(&x->window.body), request->name, &names, answer.token))
        answer.end = FLEET_END_MALFORMED;
    fleet_serve_answer(s->socket, request, answer, buffer_view(&names));
}

/* Returns the time in the header Retry-After, or 0 if there is none. */
static uint64_t wait_of(const struct exchange *x)
{
    curl_off_t wait_s = 0;
    curl_easy_getinfo(x->curl, CURLINFO_RETRY_AFTER, &wait_s);
    return wait_s > 0 ? (uint64_t)wait_s : 0;
}

static void answer_exchange(const struct http_server *s, struct exchange *x, enum fleet_end end)
{
    struct fleet_answer answer = { .end = end, .wait_s = end == FLEET_END_BUSY ? wait_of(x) : 0 };
    if (is_list(x)) {
        answer_list(s, x, answer);
        return;
    }
    if (is_ranged(x)) { /* the file has fewer bytes than its index says, if the end is DONE */
        answer.end = end == FLEET_END_DONE ? FLEET_END_MALFORMED : end;
        fleet_window_refuse(&x->window, s->socket, answer);
        return;
    }
    if (!changes(x))
        copy_tag(x, answer.tag);
    fleet_serve_answer(s->socket, x->window.range.requests, answer, buffer_view(&x->window.body));
}

/* Passes SSL_CERT_FILE and SSL_CERT_DIR to libcurl. OpenSSL alone would read these variables, but
 * libcurl's defaults override them. */
static bool set_authorities(CURL *curl)
{
    const char *file = getenv("SSL_CERT_FILE"), *directory = getenv("SSL_CERT_DIR");
    return (!file || !*file || !curl_easy_setopt(curl, CURLOPT_CAINFO, file)) &&
           (!directory || !*directory || !curl_easy_setopt(curl, CURLOPT_CAPATH, directory));
}

/* Leaves redirects disabled: they could send requests and credentials to another server. */
static bool set_options(struct exchange *x)
{
    CURL *curl = x->curl;
    return !curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_USERAGENT, "kiln/" KILN_VERSION) &&
           !curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS) &&
           !curl_easy_setopt(curl, CURLOPT_PIPEWAIT, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
           !curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)FLEET_ACCESS_MAX_MS) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEDATA, x) &&
           !curl_easy_setopt(curl, CURLOPT_PRIVATE, x) && set_authorities(curl);
}

static bool add_header(struct exchange *x, const char *text)
{
    struct curl_slist *longer = curl_slist_append(x->headers, text);
    if (longer)
        x->headers = longer;
    return longer;
}

static bool set_url(struct exchange *x, const struct url *root)
{
    const struct fleet_request *request = x->window.range.requests;
    char text[STORE_URL_MAX];
    bool is_known = is_list(x) ? store_list_url(root, request->name, request->token, text)
                               : store_file_url(root, request->name, text);
    return is_known && !curl_easy_setopt(x->curl, CURLOPT_URL, text);
}

static bool set_range(struct exchange *x)
{
    char text[48];
    if (!is_ranged(x))
        return true;
    snprintf(text, sizeof(text), "%llu-%llu", (unsigned long long)x->window.range.first,
             (unsigned long long)x->window.range.end - 1);
    return !curl_easy_setopt(x->curl, CURLOPT_RANGE, text);
}

/* Adds the condition of a put. HTTP prescribes quotation marks around the tag, but Ceph 16 finds
 * the tag only without them. */
static bool set_condition(struct exchange *x)
{
    const struct fleet_request *request = x->window.range.requests;
    char text[FLEET_TAG_MAX + 32];
    if (!x->is_conditional || (request->is_replace && !request->tag[0]))
        return true;
    snprintf(text, sizeof(text), x->is_quoted ? "If-Match: \"%s\"" : "If-Match: %s", request->tag);
    return add_header(x, request->is_replace ? text : "If-None-Match: *");
}

/* Sets the options of an upload. libcurl asks the server for permission (header "Expect") before it
 * sends a large body. Do not disable this header: libcurl 7.88 would still include it in the
 * signature, but would not send it. */
static bool set_upload(struct exchange *x)
{
    CURL *curl = x->curl;
    if (!is_put(x))
        return true;
    return set_condition(x) && add_header(x, "Content-Type: application/octet-stream") &&
           !curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, EXPECT_MS) &&
           !curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->window.body.size) &&
           !curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_upload) &&
           !curl_easy_setopt(curl, CURLOPT_READDATA, x) &&
           !curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek) &&
           !curl_easy_setopt(curl, CURLOPT_SEEKDATA, x);
}

static bool set_remove(struct exchange *x)
{
    return !is_remove(x) || !curl_easy_setopt(x->curl, CURLOPT_CUSTOMREQUEST, "DELETE");
}

/* Adds the digest of the body, because older versions of libcurl compute one that S3 refuses. */
static bool add_body_digest(struct exchange *x)
{
    char hex[DIGEST_HEX_SIZE], text[DIGEST_HEX_SIZE + 32];
    struct digest digest = sha256_of(is_put(x) ? buffer_view(&x->window.body) : bytes_of("", 0));
    digest_to_hex(&digest, hex);
    snprintf(text, sizeof(text), "x-amz-content-sha256: %s", hex);
    return add_header(x, text);
}

static bool add_token(struct exchange *x, const char *token)
{
    char text[sizeof(((struct store_credentials *)0)->token) + 32];
    snprintf(text, sizeof(text), "x-amz-security-token: %s", token);
    return !*token || add_header(x, text);
}

static bool set_signature(struct exchange *x, const struct store_credentials *c)
{
    char provider[sizeof(c->region) + 16];
    if (!c->id[0])
        return true;
    snprintf(provider, sizeof(provider), "aws:amz:%s:s3", c->region);
    /* CURLOPT_USERPWD would end the id at its first colon; ids of Swift have one. */
    return add_body_digest(x) && add_token(x, c->token) &&
           !curl_easy_setopt(x->curl, CURLOPT_AWS_SIGV4, provider) &&
           !curl_easy_setopt(x->curl, CURLOPT_USERNAME, c->id) &&
           !curl_easy_setopt(x->curl, CURLOPT_PASSWORD, c->secret);
}

static bool prepare_body(struct exchange *x)
{
    const struct fleet_request *request = x->window.range.requests;
    struct kiln_err ignored = KILN_ERR_INIT;
    uint64_t size = is_put(x)      ? FLEET_PUT_SIZE_MAX
                    : is_ranged(x) ? expected_size(x)
                    : is_list(x)   ? STORE_PAGE_MAX
                                   : request->size_max;
    buffer_init(&x->window.body, (size_t)size);
    return !is_put(x) ||
           fs_read_fd(request->fd, (size_t)size, &x->window.body, &ignored) == KILN_OK;
}

/* Creates an exchange with a copy of the range's requests. Returns NULL if memory ran out. */
static struct exchange *create_exchange(int socket, const struct fleet_range *range)
{
    struct exchange *x = calloc(1, sizeof(*x));
    struct fleet_request *requests = calloc(range->count, sizeof(*requests));
    if (!x || !requests) {
        free(x);
        free(requests);
        return NULL;
    }
    memcpy(requests, range->requests, range->count * sizeof(*requests));
    x->window.range = *range;
    x->window.range.requests = requests;
    x->window.heard_ns = clock_monotonic_ns();
    x->socket = socket;
    x->curl = curl_easy_init();
    return x;
}

static bool add_exchange(const struct http_server *s, struct exchange *x)
{
    return set_upload(x) && set_remove(x) && set_signature(x, &s->credentials) &&
           !curl_easy_setopt(x->curl, CURLOPT_HTTPHEADER, x->headers) &&
           curl_multi_add_handle(s->multi, x->curl) == CURLM_OK;
}

/* Chooses another condition for a put that the store has refused. If the store refuses all
 * conditions (OpenStack Swift answers 501), uses none: a record may then replace another record of
 * the same kernel, but readers check every record. If the store did not find the tag, puts the tag
 * in quotation marks. Returns false if there is no other condition. */
static bool change_condition(struct http_server *s, struct exchange *x)
{
    const struct fleet_request *request = x->window.range.requests;
    long status = status_of(x);
    if (!is_put(x) || !x->is_conditional)
        return false;
    if (status == 501) {
        s->has_no_conditions = true;
        x->is_conditional = false;
        return true;
    }
    bool may_quote = request->is_replace && request->tag[0] && !x->is_quoted;
    x->is_quoted |= may_quote && (status == 400 || status == 412);
    return x->is_quoted && may_quote;
}

/* Returns whether a put must be repeated, and counts the repetition. S3 answers 409 while another
 * host puts or deletes the same file. */
static bool is_conflict(struct exchange *x)
{
    return is_put(x) && x->is_conditional && status_of(x) == 409 && x->conflicts++ < CONFLICTS_MAX;
}

static bool send_again(struct http_server *s, struct exchange *x)
{
    if (!is_conflict(x) && !change_condition(s, x))
        return false;
    x->sent = 0;
    curl_easy_setopt(x->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(x->headers);
    x->headers = NULL;
    return add_exchange(s, x);
}

/* Returns NULL if the exchange cannot be started. */
static struct exchange *start_exchange(struct http_server *s, const struct fleet_range *range)
{
    struct exchange *x = create_exchange(s->socket, range);
    if (!x)
        return NULL;
    x->is_conditional = !s->has_no_conditions;
    if (x->curl && prepare_body(x) && set_options(x) && set_url(x, s->url) && set_range(x) &&
        add_exchange(s, x))
        return x;
    destroy_exchange(x);
    return NULL;
}

static void refuse_range(const struct http_server *s, const struct fleet_range *range,
                         enum fleet_end end)
{
    for (size_t i = 0; i < range->count; i++)
        fleet_serve_answer(s->socket, &range->requests[i], (struct fleet_answer){ .end = end },
                           (struct bytes){ 0 });
}

static void drop_windows(struct http_server *s, uint64_t now_ns)
{
    struct fleet_window *window;
    while ((window = fleet_windows_oldest(&s->windows, now_ns)))
        destroy_exchange((struct exchange *)(void *)window);
}

/* How requests end for which no exchange can start. The URL may have no bucket to list. */
static enum fleet_end end_without_exchange(const struct fleet_range *range, bool is_huge)
{
    if (is_huge)
        return FLEET_END_MALFORMED;
    return range->requests->is_list ? FLEET_END_REFUSED : FLEET_END_BROKEN;
}

/* Starts an exchange, or answers its requests that there is none. */
static void start_range(struct http_server *s, const struct fleet_range *range, bool is_window)
{
    bool is_huge = range->end - range->first > FLEET_RANGE_SIZE_MAX;
    struct exchange *x = is_huge ? NULL : start_exchange(s, range);
    if (!x)
        refuse_range(s, range, end_without_exchange(range, is_huge));
    else if (is_window)
        list_append(&s->windows, &x->window.link);
}

/* Reads the files that no window has. A window that this function begins may also answer requests
 * that follow in |requests|. */
static void start_reads(struct http_server *s, struct fleet_request *requests, size_t count)
{
    size_t taken = 1;
    const uint64_t now_ns = clock_monotonic_ns();
    fleet_ranges_sort(requests, count);
    for (size_t i = 0; i < count; i += taken) {
        taken = 1;
        if (fleet_windows_take(&s->windows, s->socket, &requests[i], now_ns))
            continue;
        drop_windows(s, now_ns);
        struct fleet_range range = fleet_ranges_first(&requests[i], count - i);
        bool is_window = fleet_windows_extend(&s->windows, &range);
        start_range(s, &range, is_window);
        taken = range.count;
    }
}

static void start_put(struct http_server *s, struct fleet_request *request)
{
    const struct fleet_range one = { .requests = request, .count = 1 };
    start_range(s, &one, /* is_window= */ false);
    close(request->fd);
}

/* Reads the requests that have arrived. Starts puts at once, because each of them has a descriptor,
 * and a process that has too many descriptors receives no more. Returns KILN_UNAVAILABLE if kilnd
 * will send no more. */
static enum kiln_code read_requests(struct http_server *s, struct fleet_request *reads,
                                    size_t *count, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    while (!rc && *count < REQUESTS_MAX) {
        struct fleet_request *request = &reads[*count];
        rc = fleet_receive_request(s->socket, request, err);
        if (!rc && request->is_put)
            start_put(s, request);
        else
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
    start_reads(s, requests, count);
    return rc;
}

/* Keeps the bytes of a window for later requests, and frees everything else. */
static void end_exchange(struct exchange *x, enum fleet_end end)
{
    if (end != FLEET_END_DONE || !list_holds(&x->window.link)) {
        destroy_exchange(x);
        return;
    }
    curl_easy_cleanup(x->curl);
    x->curl = NULL;
    x->window.over_ns = clock_monotonic_ns();
}

static void end_exchanges(struct http_server *s)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(s->multi, &left))) {
        struct exchange *x = NULL;
        CURLcode failed = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &x);
        curl_multi_remove_handle(s->multi, x->curl);
        if (send_again(s, x))
            continue;
        enum fleet_end end = end_of_transfer(x, failed);
        answer_exchange(s, x, end);
        end_exchange(x, end);
    }
}

static bool need_credentials(const struct http_server *s)
{
    return s->provider->kind && clock_monotonic_ns() >= s->provider_ns &&
           (!s->credentials.id[0] || clock_wall_s() + RENEW_BEFORE_S >= s->credentials.expires_s);
}

static uint64_t next_pause(struct http_server *s)
{
    uint64_t longer = 2 * s->provider_pause_ns;
    if (s->credentials.id[0] || longer == 0)
        s->provider_pause_ns = PROVIDER_PAUSE_NS;
    else
        s->provider_pause_ns = longer < PROVIDER_PAUSE_MAX_NS ? longer : PROVIDER_PAUSE_MAX_NS;
    return s->provider_pause_ns;
}

/* Requests temporary credentials if there are none, or if they expire soon. If this fails, uses the
 * old ones. Without credentials, requests are not signed: everybody may read some trees. */
static void renew_credentials(struct http_server *s)
{
    struct kiln_err why = KILN_ERR_INIT;
    if (!need_credentials(s))
        return;
    bool has_failed = store_provider_read(s->provider, &s->credentials, &why) != KILN_OK;
    s->provider_ns = clock_monotonic_ns() + next_pause(s);
    if (has_failed)
        fprintf(stderr, "kiln-transfer: %s%s\n", why.text,
                s->credentials.id[0] ? "" : "; requests are not signed");
}

static enum kiln_code serve_requests(struct http_server *s, struct kiln_err *err)
{
    for (;;) {
        struct curl_waitfd kilnd = { .fd = s->socket, .events = CURL_WAIT_POLLIN };
        int running;
        if (curl_multi_poll(s->multi, &kilnd, 1, IDLE_MS, NULL) != CURLM_OK)
            return kiln_fail(err, KILN_IO, "libcurl cannot wait for the server");
        /* Before take_requests, so that no window seems silent whose bytes have come. */
        curl_multi_perform(s->multi, &running);
        end_exchanges(s);
        drop_windows(s, clock_monotonic_ns());
        if (kilnd.revents)
            renew_credentials(s);
        enum kiln_code rc = kilnd.revents ? take_requests(s, err) : KILN_OK;
        if (rc)
            return rc == KILN_UNAVAILABLE ? KILN_OK : rc;
    }
}

/* Serves until kilnd closes the socket. Does not complete the requests to the server that still run
 * then, and frees only those of windows, because the process ends. */
enum kiln_code fleet_serve_http(int socket, const struct fleet_source *source, struct kiln_err *err)
{
    struct http_server server = { .socket = socket,
                                  .url = source->url,
                                  .provider = &source->provider,
                                  .credentials = source->credentials,
                                  .multi = curl_multi_init() };
    list_init(&server.windows);
    if (!server.multi ||
        curl_multi_setopt(server.multi, CURLMOPT_MAX_HOST_CONNECTIONS, CONNECTIONS_MAX))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for requests to the server");
    enum kiln_code rc = serve_requests(&server, err);
    LIST_EACH (&server.windows, struct fleet_window, link, window)
        destroy_exchange((struct exchange *)(void *)window);
    curl_multi_cleanup(server.multi);
    store_credentials_wipe(&server.credentials);
    return rc;
}
