/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/transfer/fetch_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect_fetched(struct fixture *f, void (*answer)(struct http_script *, unsigned, int),
                           const uint8_t *content)
{
    serve(f, answer);
    must(get(f, "", "/file"), f->err);
    expect_content(f, content);
}

TEST_F(fetch, a_fetch_resumes_after_a_lost_connection)
{
    strcpy(f->etag, "\"one\"");
    f->cuts = 2;
    f->step = 1000;

    expect_fetched(f, answer_file, f->content);

    assert_int_equal(f->server.requests, 3);
    assert_int_equal(f->ranges, 2);
    assert_true(http_script_was_asked(&f->server, "Range: bytes=2000-"));
    assert_true(http_script_was_asked(&f->server, "If-Range: \"one\""));
    assert_int_equal(pause_count, 2);
}

TEST_F(fetch, without_an_etag_a_fetch_resumes_by_date)
{
    strcpy(f->date, "Mon, 01 Jan 2024 00:00:00 GMT");
    f->cuts = 1;
    f->step = 1000;

    expect_fetched(f, answer_file, f->content);

    assert_true(http_script_was_asked(&f->server, "If-Range: Mon, 01 Jan 2024 00:00:00 GMT"));
}

TEST_F(fetch, does_not_trust_a_date_of_the_same_second)
{
    strcpy(f->date, "Tue, 02 Jan 2024 00:00:00 GMT");
    f->cuts = 1;
    f->step = 1000;

    expect_fetched(f, answer_file, f->content);

    assert_int_equal(f->ranges, 0);
}

TEST_F(fetch, does_not_trust_a_weak_etag)
{
    strcpy(f->etag, "W/\"one\"");
    strcpy(f->date, "Mon, 01 Jan 2024 00:00:00 GMT");
    f->cuts = 1;
    f->step = 1000;

    expect_fetched(f, answer_file, f->content);

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

TEST_F(fetch, a_fetch_restarts_if_the_file_changed)
{
    strcpy(f->etag, "\"one\"");

    expect_fetched(f, answer_new_version, f->other);

    assert_int_equal(f->server.requests, 2);
    assert_int_equal(f->ranges, 1);
}

static void answer_wrong_part(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (number == 2)
        strcpy(f->etag, "\"two\"");
    f->cuts = number == 1;
    send_file(f, fd, number == 1 ? f->content : f->other);
}

TEST_F(fetch, never_joins_two_versions_even_if_the_server_does)
{
    strcpy(f->etag, "\"one\"");
    f->step = 1000;

    expect_fetched(f, answer_wrong_part, f->other);

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

TEST_F(fetch, an_unrequested_part_is_not_used)
{
    strcpy(f->etag, "\"one\"");
    f->step = 1000;

    expect_fetched(f, answer_wrong_start, f->content);

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

TEST_F(fetch, a_fetch_restarts_if_the_file_became_shorter)
{
    strcpy(f->etag, "\"one\"");
    f->step = 1000;

    expect_fetched(f, answer_shorter, f->content);

    assert_int_equal(f->server.requests, 3);
}

TEST_F(fetch, a_fetch_continues_while_attempts_bring_data)
{
    strcpy(f->etag, "\"one\"");
    f->cuts = 49;
    f->step = 1000;

    expect_fetched(f, answer_file, f->content);

    assert_int_equal(f->server.requests, 50);
}

static void answer_never_more(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    (void)number;
    f->cuts = 1;
    send_file(f, fd, f->content);
}

TEST_F(fetch, a_fetch_gives_up_after_attempts_without_data)
{
    f->step = 1000; /* without an ETag or a date, each attempt starts from the beginning */
    serve(f, answer_never_more);

    assert_int_equal(get(f, "", "/file"), KILN_IO);

    assert_int_equal(f->server.requests, f->policy.barren_max);
    assert_says(f->err.text, "'http://127.0.0.1");
    assert_says(f->err.text, "5 attempts");
}

TEST_F(fetch, pauses_between_attempts_grow_and_vary)
{
    f->status = 503;
    f->failures = 100;
    f->policy.barren_max = 11;
    serve(f, answer_file);

    assert_int_equal(get(f, "", "/file"), KILN_UNAVAILABLE);

    assert_int_equal(pause_count, 10);
    uint64_t most = f->policy.pause_ms;
    bool differs = false;
    for (unsigned i = 0; i < pause_count; i++) {
        assert_in_range(pauses[i], most / 2, most);
        differs = differs || pauses[i] != most;
        most = most * 2 < f->policy.pause_max_ms ? most * 2 : f->policy.pause_max_ms;
    }
    assert_true(differs);
}

TEST_F(fetch, a_fetch_obeys_retry_after)
{
    f->status = 429;
    f->failures = 1;
    f->extra = "Retry-After: 17\r\n";

    expect_fetched(f, answer_file, f->content);

    assert_int_equal(pause_count, 1);
    assert_int_equal(pauses[0], 17000);
}

TEST_F(fetch, retry_after_is_limited)
{
    f->status = 503;
    f->failures = 1;
    f->extra = "Retry-After: 1000000\r\n";
    serve(f, answer_file);

    must(get(f, "", "/file"), f->err);

    assert_int_equal(pauses[0], f->policy.pause_max_ms);
}

TEST_F(fetch, a_refused_connection_is_reported)
{
    int held = http_hold_port(&f->server.port);
    f->policy.barren_max = 2;

    assert_int_equal(get(f, "", "/file"), KILN_UNAVAILABLE);
    close(held);

    assert_says(f->err.text, "connect");
    assert_int_equal(f->status_seen, 0);
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

TEST_F(fetch, a_stalled_fetch_is_ended)
{
    f->policy.stall_s = 1;
    f->policy.barren_max = 1;
    serve(f, answer_slowly);

    assert_int_equal(get(f, "", "/file"), KILN_TIMED_OUT);

    assert_says(f->err.text, "too slow");
}
