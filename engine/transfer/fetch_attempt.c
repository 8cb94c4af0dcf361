/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fetch_attempt.h"

#include "common/base/cleanup.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REDIRECTS_MAX 10L
#define RECEIVE_SIZE (256L << 10)

struct attempt {
    const struct fetch_request *request;
    struct part *part;
    CURL *curl;
    struct curl_slist *headers;
    unsigned number;
    const char *note;
    bool begun;
    enum attempt_end end;
    struct kiln_err *err;
    char reason[CURL_ERROR_SIZE];
};

static void attempt_done(struct attempt *a)
{
    curl_slist_free_all(a->headers);
    curl_easy_cleanup(a->curl);
}

static const char *header_of(const struct attempt *a, const char *name)
{
    struct curl_header *found;
    if (curl_easy_header(a->curl, name, 0, CURLH_HEADER, -1, &found) != CURLHE_OK)
        return NULL;
    return found->value;
}

/* Returns the Last-Modified date if it identifies a version of the file, else NULL. The date has a
 * resolution of one second, in which the file may change twice. So it identifies a version only if
 * that second was over when the server answered (Date). */
static const char *strong_date(const struct attempt *a)
{
    const char *modified = header_of(a, "Last-Modified"), *now = header_of(a, "Date");
    if (!modified || !now)
        return NULL;
    time_t then = curl_getdate(modified, NULL), answered = curl_getdate(now, NULL);
    return then >= 0 && answered > then ? modified : NULL;
}

static void set_validator(const struct attempt *a, struct part *part)
{
    const char *tag = header_of(a, "ETag");
    part->by_date = !tag;
    const char *validator = tag ? tag : strong_date(a);
    bool weak = tag && strncmp(tag, "W/", 2) == 0;
    part->validator[0] = '\0';
    if (validator && !weak && strlen(validator) < sizeof(part->validator))
        strcpy(part->validator, validator);
}

static bool is_same_file(const struct attempt *a)
{
    const char *validator = header_of(a, a->part->by_date ? "Last-Modified" : "ETag");
    return validator && strcmp(validator, a->part->validator) == 0;
}

static uint64_t content_length(const struct attempt *a)
{
    curl_off_t length = -1;
    curl_easy_getinfo(a->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return length > 0 ? (uint64_t)length : 0;
}

static long status_of(const struct attempt *a)
{
    long status = 0;
    curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static void forget_part(struct part *part)
{
    part->size = part->whole = 0;
    part->validator[0] = '\0';
}

KILN_PRINTF(4, 5)
static bool fail_attempt(struct attempt *a, enum attempt_end end, enum kiln_code code,
                         const char *fmt, ...)
{
    char text[sizeof(a->err->text) - URL_SHOWN_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    a->end = end;
    kiln_fail(a->err, code, "cannot fetch '%s': %s", a->request->url->shown, text);
    return false;
}

static bool refuse_size(struct attempt *a)
{
    return fail_attempt(a, ATTEMPT_FINAL, KILN_FULL,
                        "it is larger than the setting package_limit, %llu bytes",
                        (unsigned long long)a->request->size_limit);
}

static bool restart_body(struct attempt *a)
{
    struct part *part = a->part;
    forget_part(part);
    if (ftruncate(part->fd, 0) < 0)
        return fail_attempt(a, ATTEMPT_FINAL, KILN_IO,
                            "cannot truncate the file to start again: %s", strerror(errno));
    part->whole = content_length(a);
    set_validator(a, part);
    return true;
}

static bool continue_body(struct attempt *a)
{
    unsigned long long from = 0, to = 0, whole = 0;
    const char *range = header_of(a, "Content-Range");
    int read = range ? sscanf(range, "bytes %llu-%llu/%llu", &from, &to, &whole) : 0;
    if (read >= 2 && from == a->part->size && is_same_file(a) &&
        (read == 2 || a->part->whole == 0 || a->part->whole == whole)) {
        a->part->whole = whole;
        return true;
    }
    forget_part(a->part);
    return fail_attempt(a, ATTEMPT_MAY_REPAIR, KILN_IO,
                        "the file changed on the server before it was complete");
}

static bool begin_body(struct attempt *a)
{
    long status = status_of(a);
    a->begun = true;
    if (status != 200 && (status != 206 || a->part->size == 0))
        return fail_attempt(a, ATTEMPT_FINAL, KILN_IO, "the server answered with status %ld",
                            status);
    if (!(status == 206 ? continue_body(a) : restart_body(a)))
        return false;
    return a->part->whole <= a->request->size_limit || refuse_size(a);
}

static bool store_body(struct attempt *a, const char *data, size_t size)
{
    struct part *part = a->part;
    if (size > a->request->size_limit - part->size)
        return refuse_size(a);
    while (size > 0) {
        ssize_t put = pwrite(part->fd, data, size, (off_t)part->size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            enum kiln_code code = errno == ENOSPC || errno == EDQUOT ? KILN_FULL : KILN_IO;
            return fail_attempt(a, ATTEMPT_FINAL, code,
                                "cannot write it to the package directory: %s", strerror(errno));
        }
        part->size += (uint64_t)put;
        data += put;
        size -= (size_t)put;
    }
    return true;
}

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
    struct attempt *a = context;
    (void)one;
    return (a->begun || begin_body(a)) && store_body(a, data, size) ? size : CURL_WRITEFUNC_ERROR;
}

static int on_progress(void *context, curl_off_t down_whole, curl_off_t down, curl_off_t up_whole,
                       curl_off_t up)
{
    const struct attempt *a = context;
    (void)down_whole, (void)down, (void)up_whole, (void)up;
    const struct transfer_progress progress = {
        .stage = "fetching",
        .done = a->part->size,
        .total = a->part->whole,
        .attempt = a->number,
        .note = a->note,
    };
    if (a->request->progress)
        a->request->progress(a->request->context, &progress);
    return 0;
}

static bool add_header(struct attempt *a, const char *text)
{
    struct curl_slist *longer = curl_slist_append(a->headers, text);
    if (longer)
        a->headers = longer;
    return longer;
}

static bool request_rest(struct attempt *a)
{
    char range[32], condition[VALIDATOR_MAX + 16];
    const struct part *part = a->part;
    if (part->size == 0 || part->validator[0] == '\0')
        return true;
    snprintf(range, sizeof(range), "%llu-", (unsigned long long)part->size);
    snprintf(condition, sizeof(condition), "If-Range: %s", part->validator);
    return add_header(a, condition) && !curl_easy_setopt(a->curl, CURLOPT_RANGE, range) &&
           !curl_easy_setopt(a->curl, CURLOPT_HTTPHEADER, a->headers);
}

/* Passes SSL_CERT_FILE and SSL_CERT_DIR to libcurl. OpenSSL alone would read these variables, but
 * libcurl's defaults override them. */
static bool set_authorities(CURL *curl)
{
    const char *file = getenv("SSL_CERT_FILE"), *directory = getenv("SSL_CERT_DIR");
    return (!file || !*file || !curl_easy_setopt(curl, CURLOPT_CAINFO, file)) &&
           (!directory || !*directory || !curl_easy_setopt(curl, CURLOPT_CAPATH, directory));
}

static bool set_timeouts(const struct attempt *a)
{
    const struct fetch_policy *policy = a->request->policy;
    CURL *curl = a->curl;
    return !curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_USERAGENT, "kiln/" KILN_VERSION) &&
           !curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, RECEIVE_SIZE) &&
           !curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)policy->connect_s) &&
           !curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)policy->stall_s) &&
           !curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)policy->stall_rate);
}

static bool set_url(const struct attempt *a)
{
    CURL *curl = a->curl;
    const char *next = a->request->url->scheme == URL_HTTPS ? "https" : "http,https";
    return !curl_easy_setopt(curl, CURLOPT_URL, a->request->url->text) &&
           !curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") &&
           !curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, next) &&
           !curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L) &&
           !curl_easy_setopt(curl, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
}

static bool set_callbacks(struct attempt *a)
{
    CURL *curl = a->curl;
    return !curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, a->reason) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl_easy_setopt(curl, CURLOPT_WRITEDATA, a) &&
           !curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L) &&
           !curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress) &&
           !curl_easy_setopt(curl, CURLOPT_XFERINFODATA, a);
}

static void refuse_status(struct attempt *a)
{
    long status = status_of(a);
    curl_off_t wait = 0;
    enum kiln_code code = KILN_IO;
    bool may_repair = status == 408 || status == 429 || status >= 500;
    if (status == 404 || status == 410)
        code = KILN_NOT_FOUND;
    else if (status == 401 || status == 403 || status == 407)
        code = KILN_DENIED;
    else if (may_repair)
        code = KILN_UNAVAILABLE;
    curl_easy_getinfo(a->curl, CURLINFO_RETRY_AFTER, &wait);
    a->part->wait_s = wait > 0 ? (uint64_t)wait : 0;
    if (status == 416 && a->part->size > 0) { /* the file on the server has become shorter than the
                                               * part that was fetched */
        forget_part(a->part);
        may_repair = true;
    }
    fail_attempt(a, may_repair ? ATTEMPT_MAY_REPAIR : ATTEMPT_FINAL, code,
                 "the server answered with status %ld", status);
}

static bool was_cut_off(const char *reason)
{
    return strstr(reason, "reset") || strstr(reason, "SYSCALL") || strstr(reason, "closed") ||
           strstr(reason, "timed out");
}

static void refuse_curl(struct attempt *a, CURLcode failed)
{
    static const struct {
        CURLcode failed;
        enum attempt_end end;
        enum kiln_code code;
        const char *advice;
    } known[] = {
        { CURLE_COULDNT_RESOLVE_HOST, ATTEMPT_MAY_REPAIR, KILN_UNAVAILABLE, "" },
        { CURLE_COULDNT_RESOLVE_PROXY, ATTEMPT_MAY_REPAIR, KILN_UNAVAILABLE,
          "; kilnd's variables http_proxy, https_proxy and all_proxy set the proxy" },
        { CURLE_COULDNT_CONNECT, ATTEMPT_MAY_REPAIR, KILN_UNAVAILABLE, "" },
        { CURLE_OPERATION_TIMEDOUT, ATTEMPT_MAY_REPAIR, KILN_TIMED_OUT, "" },
        { CURLE_PEER_FAILED_VERIFICATION, ATTEMPT_FINAL, KILN_DENIED,
          "; if you trust its authority, add that to the system's certificates, or set "
          "SSL_CERT_FILE in kilnd's environment" },
        { CURLE_SSL_CACERT_BADFILE, ATTEMPT_FINAL, KILN_DENIED, "" },
        { CURLE_SSL_CONNECT_ERROR, ATTEMPT_FINAL, KILN_IO,
          "; if the server does not support https, use an http:// URL" },
        { CURLE_UNSUPPORTED_PROTOCOL, ATTEMPT_FINAL, KILN_DENIED,
          "; kiln does not follow the server's redirect" },
        { CURLE_TOO_MANY_REDIRECTS, ATTEMPT_FINAL, KILN_IO, "" },
        { CURLE_URL_MALFORMAT, ATTEMPT_FINAL, KILN_INVALID, "" },
        { CURLE_OUT_OF_MEMORY, ATTEMPT_FINAL, KILN_NO_MEMORY, "" },
    };
    const char *reason = *a->reason ? a->reason : curl_easy_strerror(failed);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].failed != failed || (failed == CURLE_SSL_CONNECT_ERROR && was_cut_off(reason)))
            continue;
        fail_attempt(a, known[i].end, known[i].code, "%s%s", reason, known[i].advice);
        return;
    }
    fail_attempt(a, ATTEMPT_MAY_REPAIR, KILN_IO, "%s", reason);
}

static enum attempt_end judge_response(struct attempt *a, CURLcode failed)
{
    if (a->end != ATTEMPT_DONE)
        return a->end; /* a callback has already ended the attempt */
    if (failed == CURLE_HTTP_RETURNED_ERROR)
        refuse_status(a);
    else if (failed && !a->begun && content_length(a) > a->request->size_limit)
        refuse_size(a); /* the server stated a size above the limit, so libcurl read no body */
    else if (failed)
        refuse_curl(a, failed);
    else if ((a->begun || begin_body(a)) && a->part->whole > 0 && a->part->size != a->part->whole)
        fail_attempt(a, ATTEMPT_MAY_REPAIR, KILN_IO, "it ended after %llu of %llu bytes",
                     (unsigned long long)a->part->size, (unsigned long long)a->part->whole);
    return a->end;
}

enum attempt_end fetch_attempt(const struct fetch_request *request, unsigned number,
                               const char *note, struct part *part, struct kiln_err *err)
{
    __attribute__((cleanup(attempt_done))) struct attempt a = {
        .request = request,
        .part = part,
        .curl = curl_easy_init(),
        .number = number,
        .note = note,
        .err = err,
    };
    if (!a.curl || !set_url(&a) || !set_timeouts(&a) || !set_callbacks(&a) ||
        !set_authorities(a.curl) || !request_rest(&a)) {
        kiln_fail(err, KILN_NO_MEMORY, "no memory for a request to libcurl");
        return ATTEMPT_FINAL;
    }
    part->wait_s = 0;
    on_progress(&a, 0, 0, 0, 0);
    CURLcode failed = curl_easy_perform(a.curl);
    part->status = status_of(&a);
    on_progress(&a, 0, 0, 0, 0);
    return judge_response(&a, failed);
}
