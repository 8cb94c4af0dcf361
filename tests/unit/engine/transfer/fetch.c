/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fetch.h"

#include "common/fs.h"
#include "tests/support/http_script.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE 50000
#define PAUSES_KEPT 64

/* ---- fixture ---- */

static uint64_t pauses[PAUSES_KEPT];
static unsigned pause_count;

static void count_pause(uint64_t ms)
{
    if (pause_count < PAUSES_KEPT)
        pauses[pause_count] = ms;
    pause_count++;
}

struct fixture {
    struct http_script server;
    struct fetch_policy policy;
    struct fetch_request request;
    struct url url;
    uint64_t limit;
    uint8_t content[SIZE], other[SIZE]; /* two versions of the file */
    unsigned ranges;                    /* requests that asked for a part */
    char etag[64], date[64];            /* "" for none; of the next answers */
    unsigned cuts;                      /* answers to be cut, each after another |step| */
    size_t step;
    int status;        /* instead of the file */
    const char *extra; /* header lines for that */
    unsigned failures; /* so many requests get |status| */
    int fd;
    struct kiln_err err;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->err = KILN_ERR_INIT;
    f->limit = 1 << 20;
    f->policy = fetch_policy_standard;
    f->policy.pause = count_pause;
    f->server.context = f;
    f->step = SIZE;
    pause_count = 0;
    for (size_t i = 0; i < SIZE; i++) {
        f->content[i] = (uint8_t)(i * 7 + i / 256);
        f->other[i] = (uint8_t)(i * 13 + 5);
    }
    must(fs_memfd("fetched", &f->fd, &f->err), f->err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    http_script_stop(&f->server);
    url_done(&f->url);
    close(f->fd);
    free(f);
    return 0;
}

static enum kiln_code get(struct fixture *f, const char *credentials, const char *path)
{
    char text[256];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(text, sizeof(text), "http://%s127.0.0.1:%u%s", credentials, f->server.port, path);
    must(url_parse(text, &f->url, &err), err);
    f->request =
        (struct fetch_request){ .url = &f->url, .size_limit = f->limit, .policy = &f->policy };
    return fetch(&f->request, f->fd, &f->err);
}

static void expect_content(struct fixture *f, const uint8_t *content)
{
    static uint8_t got[SIZE + 1];
    assert_int_equal(pread(f->fd, got, sizeof(got), 0), SIZE);
    assert_memory_equal(got, content, SIZE);
}

static off_t size_of_file(const struct fixture *f)
{
    struct stat seen;
    assert_int_equal(fstat(f->fd, &seen), 0);
    return seen.st_size;
}

/* ---- answers ---- */

static size_t range_start(const struct http_script *s)
{
    const char *range = strstr(s->request, "Range: bytes=");
    return range ? strtoull(range + strlen("Range: bytes="), NULL, 10) : 0;
}

static void say_head(struct fixture *f, int fd, const char *status, size_t length)
{
    http_say(fd, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n", status, length);
    if (f->etag[0])
        http_say(fd, "ETag: %s\r\n", f->etag);
    if (f->date[0])
        http_say(fd, "Last-Modified: %s\r\nDate: Tue, 02 Jan 2024 00:00:00 GMT\r\n", f->date);
}

/* As a good server does it, but for the cuts. */
static void send_file(struct fixture *f, int fd, const uint8_t *content)
{
    size_t from = range_start(&f->server);
    f->ranges += from > 0;
    size_t size = f->cuts > 0 && SIZE - from > f->step ? f->step : SIZE - from;
    f->cuts -= f->cuts > 0;
    say_head(f, fd, from ? "206 Partial Content" : "200 OK", SIZE - from);
    if (from)
        http_say(fd, "Content-Range: bytes %zu-%d/%d\r\n", from, SIZE - 1, SIZE);
    http_say(fd, "\r\n");
    http_send(fd, content + from, size);
}

static void answer_file(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (number <= f->failures)
        http_say(fd, "HTTP/1.1 %d Because\r\nContent-Length: 0\r\n%sConnection: close\r\n\r\n",
                 f->status, f->extra ? f->extra : "");
    else
        send_file(f, fd, f->content);
}

static void serve(struct fixture *f,
                  void (*answer)(struct http_script *script, unsigned number, int fd))
{
    f->server.answer = answer;
    http_script_start(&f->server);
}

/* ---- whole files ---- */

static void takes_a_whole_file(void **state)
{
    struct fixture *f = *state;
    serve(f, answer_file);

    must(get(f, "", "/gfx90a68.kdb"), f->err);

    expect_content(f, f->content);
    assert_int_equal(f->server.requests, 1);
    assert_true(http_script_was_asked(&f->server, "GET /gfx90a68.kdb HTTP/1.1"));
    assert_int_equal(pause_count, 0);
}

static void answer_empty(struct http_script *s, unsigned number, int fd)
{
    (void)s, (void)number;
    http_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

static void takes_an_empty_file(void **state)
{
    struct fixture *f = *state;
    serve(f, answer_empty);

    must(get(f, "", "/empty"), f->err);

    assert_int_equal(size_of_file(f), 0);
}

/* ---- lost connections ---- */

static void goes_on_where_a_lost_connection_stopped(void **state)
{
    struct fixture *f = *state;
    strcpy(f->etag, "\"one\"");
    f->cuts = 2;
    f->step = 1000;
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_int_equal(f->server.requests, 3);
    assert_int_equal(f->ranges, 2);
    assert_true(http_script_was_asked(&f->server, "Range: bytes=2000-"));
    assert_true(http_script_was_asked(&f->server, "If-Range: \"one\""));
    assert_int_equal(pause_count, 2);
}

static void goes_on_by_date_where_there_is_no_etag(void **state)
{
    struct fixture *f = *state;
    strcpy(f->date, "Mon, 01 Jan 2024 00:00:00 GMT");
    f->cuts = 1;
    f->step = 1000;
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_true(http_script_was_asked(&f->server, "If-Range: Mon, 01 Jan 2024 00:00:00 GMT"));
}

static void does_not_trust_a_date_of_the_same_second(void **state)
{
    struct fixture *f = *state;
    strcpy(f->date, "Tue, 02 Jan 2024 00:00:00 GMT");
    f->cuts = 1;
    f->step = 1000;
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_int_equal(f->ranges, 0);
}

static void does_not_trust_a_weak_etag(void **state)
{
    struct fixture *f = *state;
    strcpy(f->etag, "W/\"one\"");
    strcpy(f->date, "Mon, 01 Jan 2024 00:00:00 GMT");
    f->cuts = 1;
    f->step = 1000;
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_int_equal(f->ranges, 0);
}

static void answer_new_version(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (number == 1) {
        say_head(f, fd, "200 OK", SIZE);
        http_say(fd, "\r\n");
        http_send(fd, f->content, 30000);
        return;
    }
    strcpy(f->etag, "\"two\"");
    f->ranges += http_script_was_asked(s, "If-Range: \"one\"");
    say_head(f, fd, "200 OK", SIZE);
    http_say(fd, "\r\n");
    http_send(fd, f->other, SIZE);
}

static void begins_anew_when_the_file_changed_meanwhile(void **state)
{
    struct fixture *f = *state;
    strcpy(f->etag, "\"one\"");
    serve(f, answer_new_version);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->other);
    assert_int_equal(f->server.requests, 2);
    assert_int_equal(f->ranges, 1);
}

/* Ignores If-Range and sends a part of the new version. */
static void answer_wrong_part(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (number == 2)
        strcpy(f->etag, "\"two\"");
    f->cuts = number == 1;
    send_file(f, fd, number == 1 ? f->content : f->other);
}

static void never_joins_two_versions_even_if_the_server_does(void **state)
{
    struct fixture *f = *state;
    strcpy(f->etag, "\"one\"");
    f->step = 1000;
    serve(f, answer_wrong_part);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->other);
    assert_int_equal(f->server.requests, 3);
    assert_false(http_script_was_asked(&f->server, "Range:"));
}

static void answer_wrong_start(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (number != 2) {
        f->cuts = number == 1;
        send_file(f, fd, f->content);
        return;
    }
    say_head(f, fd, "206 Partial Content", SIZE - 500);
    http_say(fd, "Content-Range: bytes 500-%d/%d\r\n\r\n", SIZE - 1, SIZE);
    http_send(fd, f->content + 500, SIZE - 500);
}

static void takes_no_part_that_was_not_asked_for(void **state)
{
    struct fixture *f = *state;
    strcpy(f->etag, "\"one\"");
    f->step = 1000;
    serve(f, answer_wrong_start);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_int_equal(f->server.requests, 3);
}

static void answer_shorter(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    f->cuts = number == 1;
    if (number == 2)
        http_say(fd, "HTTP/1.1 416 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    else
        send_file(f, fd, f->content);
}

static void begins_anew_when_there_is_no_such_part_any_more(void **state)
{
    struct fixture *f = *state;
    strcpy(f->etag, "\"one\"");
    f->step = 1000;
    serve(f, answer_shorter);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_int_equal(f->server.requests, 3);
}

static void keeps_on_while_each_attempt_brings_more(void **state)
{
    struct fixture *f = *state;
    strcpy(f->etag, "\"one\"");
    f->cuts = 49;
    f->step = 1000;
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_int_equal(f->server.requests, 50);
}

static void answer_never_more(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    (void)number;
    f->cuts = 1;
    send_file(f, fd, f->content);
}

static void gives_up_when_attempts_bring_nothing_new(void **state)
{
    struct fixture *f = *state;
    f->step = 1000; /* without a validator each attempt begins at the start */
    serve(f, answer_never_more);

    assert_int_equal(get(f, "", "/file"), KILN_IO);

    assert_int_equal(f->server.requests, f->policy.barren_most);
    assert_says(f->err.text, "cannot fetch 'http://127.0.0.1");
    assert_says(f->err.text, "given up after 5 attempts");
}

static void pauses_longer_each_time_and_never_twice_the_same(void **state)
{
    struct fixture *f = *state;
    f->status = 503;
    f->failures = 100;
    f->policy.barren_most = 11;
    serve(f, answer_file);

    assert_int_equal(get(f, "", "/file"), KILN_UNAVAILABLE);

    assert_int_equal(pause_count, 10);
    uint64_t most = f->policy.pause_ms;
    bool differs = false;
    for (unsigned i = 0; i < pause_count; i++) {
        assert_in_range(pauses[i], most / 2, most);
        differs = differs || pauses[i] != most;
        most = most * 2 < f->policy.pause_most_ms ? most * 2 : f->policy.pause_most_ms;
    }
    assert_true(differs);
}

static void waits_as_long_as_the_server_asks(void **state)
{
    struct fixture *f = *state;
    f->status = 429;
    f->failures = 1;
    f->extra = "Retry-After: 17\r\n";
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_int_equal(pause_count, 1);
    assert_int_equal(pauses[0], 17000);
}

static void waits_no_longer_than_its_own_limit(void **state)
{
    struct fixture *f = *state;
    f->status = 503;
    f->failures = 1;
    f->extra = "Retry-After: 1000000\r\n";
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    assert_int_equal(pauses[0], f->policy.pause_most_ms);
}

static void says_that_nobody_listens(void **state)
{
    struct fixture *f = *state;
    f->server.port = http_free_port();
    f->policy.barren_most = 2;

    assert_int_equal(get(f, "", "/file"), KILN_UNAVAILABLE);

    f->server.port = 0; /* was never started */
    assert_says(f->err.text, "Failed to connect");
    assert_int_equal(pause_count, 1);
}

static void answer_slowly(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    (void)number;
    say_head(f, fd, "200 OK", SIZE);
    http_say(fd, "\r\n1234567890");
    http_wait_for_hang_up(fd);
}

static void cuts_a_server_that_stalls(void **state)
{
    struct fixture *f = *state;
    f->policy.stall_s = 1;
    f->policy.barren_most = 1;
    serve(f, answer_slowly);

    assert_int_equal(get(f, "", "/file"), KILN_TIMED_OUT);

    assert_says(f->err.text, "too slow");
}

/* ---- refusals ---- */

static void asks_only_once_for_what_is_refused(void **state)
{
    static const struct {
        int status;
        enum kiln_code code;
    } cases[] = { { 404, KILN_NOT_FOUND }, { 410, KILN_NOT_FOUND }, { 401, KILN_DENIED },
                  { 403, KILN_DENIED },    { 400, KILN_IO },        { 416, KILN_IO } };
    struct fixture *f = *state;
    f->failures = 100;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char says[32];
        snprintf(says, sizeof(says), "status %d", cases[i].status);
        f->status = cases[i].status;
        serve(f, answer_file);

        assert_int_equal(get(f, "", "/file"), cases[i].code);

        assert_int_equal(f->server.requests, 1);
        assert_says(f->err.text, says);
        http_script_stop(&f->server);
        url_done(&f->url);
    }
}

static void asks_again_after_what_may_pass(void **state)
{
    static const int statuses[] = { 408, 429, 500, 502, 503, 504 };
    struct fixture *f = *state;
    f->failures = 1;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        f->status = statuses[i];
        serve(f, answer_file);

        must(get(f, "", "/file"), f->err);

        assert_int_equal(f->server.requests, 2);
        http_script_stop(&f->server);
        url_done(&f->url);
    }
}

static void refuses_a_size_beyond_the_limit_before_taking_any_of_it(void **state)
{
    struct fixture *f = *state;
    f->limit = SIZE - 1;
    serve(f, answer_file);

    assert_int_equal(get(f, "", "/file"), KILN_FULL);

    assert_int_equal(size_of_file(f), 0);
    assert_int_equal(f->server.requests, 1);
    assert_says(f->err.text, "package_limit");
}

static void takes_exactly_the_limit(void **state)
{
    struct fixture *f = *state;
    f->limit = SIZE;
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
}

static void answer_endlessly(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    (void)number;
    http_say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    do
        http_say(fd, "%x\r\n", SIZE);
    while (http_send(fd, f->content, SIZE) && http_send(fd, "\r\n", 2));
}

static void stops_an_endless_body_at_the_limit(void **state)
{
    struct fixture *f = *state;
    f->limit = 3 * SIZE + 17;
    serve(f, answer_endlessly);

    assert_int_equal(get(f, "", "/file"), KILN_FULL);

    assert_true(size_of_file(f) <= (off_t)f->limit);
    assert_int_equal(f->server.requests, 1);
    assert_says(f->err.text, "package_limit");
}

static void answer_part_unasked(struct http_script *s, unsigned number, int fd)
{
    (void)s, (void)number;
    http_say(fd,
             "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-4/9\r\nContent-Length: 5\r\n\r\nabcde");
}

static void takes_no_part_for_the_whole(void **state)
{
    struct fixture *f = *state;
    serve(f, answer_part_unasked);

    assert_int_equal(get(f, "", "/file"), KILN_IO);

    assert_says(f->err.text, "status 206");
    assert_int_equal(size_of_file(f), 0);
}

/* ---- redirects ---- */

static void answer_redirect(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (number == 1)
        http_say(fd,
                 "HTTP/1.1 302 There\r\nLocation: %s\r\nContent-Length: 0\r\n"
                 "Connection: close\r\n\r\n",
                 f->extra);
    else
        answer_file(s, number, fd);
}

static void follows_a_redirect(void **state)
{
    struct fixture *f = *state;
    f->extra = "/elsewhere";
    serve(f, answer_redirect);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_true(http_script_was_asked(&f->server, "GET /elsewhere HTTP/1.1"));
}

static void follows_no_redirect_to_a_file_of_this_host(void **state)
{
    struct fixture *f = *state;
    f->extra = "file:///etc/passwd";
    serve(f, answer_redirect);

    assert_int_equal(get(f, "", "/file"), KILN_DENIED);

    assert_says(f->err.text, "redirect");
    assert_int_equal(size_of_file(f), 0);
    assert_int_equal(f->server.requests, 1);
}

static void answer_in_circles(struct http_script *s, unsigned number, int fd)
{
    (void)s, (void)number;
    http_say(fd, "HTTP/1.1 302 There\r\nLocation: /again\r\nContent-Length: 0\r\n"
                 "Connection: close\r\n\r\n");
}

static void does_not_run_in_circles(void **state)
{
    struct fixture *f = *state;
    serve(f, answer_in_circles);

    assert_int_equal(get(f, "", "/file"), KILN_IO);

    assert_int_equal(f->server.requests, 11);
}

/* ---- secrets ---- */

static void uses_credentials_and_never_says_them(void **state)
{
    struct fixture *f = *state;
    f->status = 404;
    f->failures = 1;
    serve(f, answer_file);

    assert_int_equal(get(f, "joe:geheim@", "/file?token=hush"), KILN_NOT_FOUND);

    assert_true(http_script_was_asked(&f->server, "GET /file?token=hush HTTP/1.1"));
    assert_true(http_script_was_asked(&f->server, "Authorization: Basic am9lOmdlaGVpbQ=="));
    assert_null(strstr(f->err.text, "geheim"));
    assert_null(strstr(f->err.text, "joe"));
    assert_null(strstr(f->err.text, "hush"));
}

/* ---- the disk ---- */

static int writes_left = -1; /* -1: no end */

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at)
{
    if (writes_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    writes_left -= writes_left > 0;
    return __real_pwrite(fd, data, size, at);
}

static void says_that_the_disk_is_full_and_does_not_ask_again(void **state)
{
    struct fixture *f = *state;
    serve(f, answer_file);
    writes_left = 1;

    enum kiln_code rc = get(f, "", "/file");
    writes_left = -1;

    assert_int_equal(rc, KILN_FULL);
    assert_int_equal(f->server.requests, 1);
    assert_says(f->err.text, "No space left");
}

/* ---- progress ---- */

struct seen {
    uint64_t done, total;
    unsigned attempt;
    char note[256];
};

static void on_progress(void *context, const struct transfer_progress *p)
{
    struct seen *seen = context;
    assert_string_equal(p->stage, "fetching");
    *seen = (struct seen){ .done = p->done, .total = p->total, .attempt = p->attempt };
    snprintf(seen->note, sizeof(seen->note), "%s", p->note);
}

static void tells_how_far_it_is_and_what_went_wrong(void **state)
{
    struct fixture *f = *state;
    struct seen seen = { 0 };
    f->status = 503;
    f->failures = 1;
    serve(f, answer_file);
    char text[64];
    snprintf(text, sizeof(text), "http://127.0.0.1:%u/file", f->server.port);
    must(url_parse(text, &f->url, &f->err), f->err);
    f->request = (struct fetch_request){ .url = &f->url,
                                         .size_limit = f->limit,
                                         .policy = &f->policy,
                                         .progress = on_progress,
                                         .context = &seen };

    must(fetch(&f->request, f->fd, &f->err), f->err);

    assert_int_equal(seen.done, SIZE);
    assert_int_equal(seen.total, SIZE);
    assert_int_equal(seen.attempt, 2);
    assert_says(seen.note, "status 503");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(takes_a_whole_file),
        TEST(takes_an_empty_file),
        TEST(goes_on_where_a_lost_connection_stopped),
        TEST(goes_on_by_date_where_there_is_no_etag),
        TEST(does_not_trust_a_date_of_the_same_second),
        TEST(does_not_trust_a_weak_etag),
        TEST(begins_anew_when_the_file_changed_meanwhile),
        TEST(never_joins_two_versions_even_if_the_server_does),
        TEST(takes_no_part_that_was_not_asked_for),
        TEST(begins_anew_when_there_is_no_such_part_any_more),
        TEST(keeps_on_while_each_attempt_brings_more),
        TEST(gives_up_when_attempts_bring_nothing_new),
        TEST(pauses_longer_each_time_and_never_twice_the_same),
        TEST(waits_as_long_as_the_server_asks),
        TEST(waits_no_longer_than_its_own_limit),
        TEST(says_that_nobody_listens),
        TEST(cuts_a_server_that_stalls),
        TEST(asks_only_once_for_what_is_refused),
        TEST(asks_again_after_what_may_pass),
        TEST(refuses_a_size_beyond_the_limit_before_taking_any_of_it),
        TEST(takes_exactly_the_limit),
        TEST(stops_an_endless_body_at_the_limit),
        TEST(takes_no_part_for_the_whole),
        TEST(follows_a_redirect),
        TEST(follows_no_redirect_to_a_file_of_this_host),
        TEST(does_not_run_in_circles),
        TEST(uses_credentials_and_never_says_them),
        TEST(says_that_the_disk_is_full_and_does_not_ask_again),
        TEST(tells_how_far_it_is_and_what_went_wrong),
    };
    /* What the host's own settings say of proxies is not for loopback. */
    setenv("no_proxy", "127.0.0.1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
