/* SPDX-License-Identifier: MIT */
#include "tests/support/wait.h"
#include "tests/unit/engine/transfer/fetch_fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TEST_F(fetch, a_complete_file_is_fetched)
{
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

TEST_F(fetch, an_empty_file_is_fetched)
{
    serve(f, answer_empty);

    must(get(f, "", "/empty"), f->err);

    assert_int_equal(size_of_file(f), 0);
}

TEST_F(fetch, a_final_status_is_not_retried)
{
    static const struct {
        int status;
        enum kiln_code code;
    } cases[] = { { 404, KILN_NOT_FOUND }, { 410, KILN_NOT_FOUND }, { 401, KILN_DENIED },
                  { 403, KILN_DENIED },    { 400, KILN_IO },        { 416, KILN_IO } };
    f->failures = 100;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char says[32];
        snprintf(says, sizeof(says), "status %d", cases[i].status);
        f->status = cases[i].status;
        serve(f, answer_file);

        assert_int_equal(get(f, "", "/file"), cases[i].code);

        assert_int_equal(f->server.requests, 1);
        assert_int_equal(f->status_seen, cases[i].status);
        assert_says(f->err.text, says);
    }
}

TEST_F(fetch, a_temporary_status_is_retried)
{
    static const int statuses[] = { 408, 429, 500, 502, 503, 504 };
    f->failures = 1;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        f->status = statuses[i];
        serve(f, answer_file);

        must(get(f, "", "/file"), f->err);

        assert_int_equal(f->server.requests, 2);
    }
}

TEST_F(fetch, a_body_beyond_the_limit_is_refused_before_it_is_read)
{
    f->limit = SIZE - 1;
    serve(f, answer_file);

    assert_int_equal(get(f, "", "/file"), KILN_FULL);

    assert_int_equal(size_of_file(f), 0);
    assert_int_equal(f->server.requests, 1);
    assert_says(f->err.text, "package_limit");
}

static void answer_large_head(struct http_script *s, unsigned number, int fd)
{
    (void)s, (void)number;
    http_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 21474836480\r\nConnection: close\r\n\r\n");
}

TEST_F(fetch, a_stated_size_beyond_the_limit_is_refused_without_a_body)
{
    f->limit = SIZE;
    serve(f, answer_large_head);

    assert_int_equal(get(f, "", "/file"), KILN_FULL);

    assert_int_equal(f->server.requests, 1);
    assert_says(f->err.text, "package_limit");
}

/* Answers each handshake with plain text, until its listener is shut down. */
static void *talk_without_tls(void *context)
{
    const int *listener = context;
    int fd;
    while ((fd = accept(*listener, NULL, NULL)) >= 0) {
        char hello[4096];
        if (read(fd, hello, sizeof(hello)) > 0)
            http_say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
        shutdown(fd, SHUT_WR);
        http_wait_for_hang_up(fd);
        close(fd);
    }
    return NULL;
}

TEST_F(fetch, https_to_an_http_server_is_not_retried)
{
    char text[100];
    pthread_t server;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(pthread_create(&server, NULL, talk_without_tls, &listener), 0);
    snprintf(text, sizeof(text), "https://127.0.0.1:%u/file", (unsigned)ntohs(at.sin_port));
    must(url_parse(text, &f->url, &f->err), f->err);

    f->request = (struct fetch_request){ .url = &f->url, .size_limit = SIZE, .policy = &f->policy };
    enum kiln_code rc = fetch(&f->request, f->fd, &f->status_seen, &f->err);
    shutdown(listener, SHUT_RDWR);
    await_thread(server, NULL);
    close(listener);
    url_done(&f->url);

    assert_int_equal(rc, KILN_IO);
    assert_int_equal(pause_count, 0);
    assert_says(f->err.text, "http://");
}

TEST_F(fetch, a_file_of_exactly_the_limit_is_fetched)
{
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

TEST_F(fetch, an_endless_body_is_stopped_at_the_limit)
{
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

TEST_F(fetch, a_partial_response_is_not_taken_as_the_file)
{
    serve(f, answer_part_unasked);

    assert_int_equal(get(f, "", "/file"), KILN_IO);

    assert_says(f->err.text, "status 206");
    assert_int_equal(size_of_file(f), 0);
}

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

TEST_F(fetch, follows_a_redirect)
{
    f->extra = "/elsewhere";
    serve(f, answer_redirect);

    must(get(f, "", "/file"), f->err);

    expect_content(f, f->content);
    assert_true(http_script_was_asked(&f->server, "GET /elsewhere HTTP/1.1"));
}

TEST_F(fetch, follows_no_redirect_to_a_file_of_this_host)
{
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

TEST_F(fetch, a_redirect_loop_ends)
{
    serve(f, answer_in_circles);

    assert_int_equal(get(f, "", "/file"), KILN_IO);

    assert_int_equal(f->server.requests, 11);
}

TEST_F(fetch, a_fetch_uses_the_proxy_of_the_environment)
{
    char proxy[64];
    serve(f, answer_file);
    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", f->server.port);
    must(url_parse("http://packages.invalid/file", &f->url, &f->err), f->err);
    f->request =
        (struct fetch_request){ .url = &f->url, .size_limit = f->limit, .policy = &f->policy };
    setenv("http_proxy", proxy, 1);

    enum kiln_code rc = fetch(&f->request, f->fd, NULL, &f->err);
    unsetenv("http_proxy");
    http_script_stop(&f->server);

    must(rc, f->err);
    expect_content(f, f->content);
    assert_true(http_script_was_asked(&f->server, "GET http://packages.invalid/file HTTP/1.1"));
}

TEST_F(fetch, credentials_are_used_but_never_shown)
{
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

static int writes_left = -1; /* -1: no limit */

WRAP(ssize_t, pwrite, int fd, const void *data, size_t size, off_t at)
{
    if (writes_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    writes_left -= writes_left > 0;
    return __real_pwrite(fd, data, size, at);
}

TEST_F(fetch, a_fetch_does_not_retry_on_a_full_disk)
{
    serve(f, answer_file);
    writes_left = 1;

    enum kiln_code rc = get(f, "", "/file");
    writes_left = -1;

    assert_int_equal(rc, KILN_FULL);
    assert_int_equal(f->server.requests, 1);
    assert_says(f->err.text, "No space");
}

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

TEST_F(fetch, fetch_progress_has_bytes_and_the_latest_failure)
{
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

    must(fetch(&f->request, f->fd, NULL, &f->err), f->err);

    assert_int_equal(seen.done, SIZE);
    assert_int_equal(seen.total, SIZE);
    assert_int_equal(seen.attempt, 2);
    assert_says(seen.note, "status 503");
}
