/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/support/wait.h"

#include "common/base/cleanup.h"
#include "common/base/fs.h"
#include "engine/transfer/fleet_serve.h"
#include "engine/transfer/fleet_window.h"
#include "tests/support/http_script.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILE_SIZE 1000u

#define TEMPORARY                                                       \
    "{\"AccessKeyId\":\"TEMPORARY-%u\",\"SecretAccessKey\":\"secret\"," \
    "\"Token\":\"token\",\"Expiration\":\"%s\"}"

/* The time stands still on a busy machine, too. Set it with set_passed, because another thread
 * reads it. */
static uint64_t passed_ns;

WRAP(uint64_t, clock_monotonic_ns, void)
{
    return 1 + __atomic_load_n(&passed_ns, __ATOMIC_RELAXED);
}

struct fixture {
    struct http_script server;
    int kilnd, process;
    struct url url;
    pthread_t thread;
    const char *head;   /* what the server answers instead of the file; NULL: the file */
    const char *next;   /* what the server answers from its second request on; NULL: |head| */
    unsigned conflicts; /* number of requests that the server first answers with status 409 */
    size_t sent_max;    /* bytes of the body that the server sends */
    /* The server sends this many bytes of a body, and the others after let_go; 0: all at once. */
    size_t pause_at;
    int gate[2];
    unsigned ranges; /* requests with a range; use it with __atomic_load_n */
    /* The server also gives credentials, as EC2 does, which expire at this time. */
    const char *expiration;
    bool has_no_bucket;
    unsigned credentials; /* how many credentials it has given */
    /* Number of the credentials that signed the last request, which also had their token; 0: none.
     * Use it with __atomic_load_n. */
    unsigned signer;
    uint8_t content[FILE_SIZE];
    enum kiln_code rc;
    struct kiln_err err, thread_err;
};

static void *run_server(void *fixture)
{
    struct fixture *f = fixture;
    struct fleet_source source = {
        .url = &f->url,
        .directory = -1,
        .credentials = { .id = "account:user", .secret = "secret", .region = "region" }
    };
    if (f->expiration) {
        source.credentials.id[0] = '\0';
        source.provider.kind = STORE_PROVIDER_INSTANCE;
        snprintf(source.provider.url, sizeof(source.provider.url), "http://127.0.0.1:%u",
                 f->server.port);
    }
    f->rc = fleet_serve_http(f->process, &source, &f->thread_err);
    return NULL;
}

/* Answers as EC2's server for metadata does, unless it was asked for something else. */
static bool answer_metadata(struct fixture *f, const char *request, int fd)
{
    char text[256] = "builder"; /* the session's token, and the name of the role */
    if (!f->expiration || !strstr(request, " /latest/"))
        return false;
    if (strstr(request, "security-credentials/builder "))
        snprintf(text, sizeof(text), TEMPORARY,
                 __atomic_add_fetch(&f->credentials, 1, __ATOMIC_RELAXED), f->expiration);
    http_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
             strlen(text), text);
    return true;
}

static void note_signer(struct fixture *f, const char *request)
{
    unsigned signer = 0;
    const char *credential = strstr(request, "Credential=TEMPORARY-");
    if (credential && strstr(request, "x-amz-security-token: token\r\n"))
        sscanf(credential, "Credential=TEMPORARY-%u/", &signer);
    __atomic_store_n(&f->signer, signer, __ATOMIC_RELAXED);
}

static void send_body(struct fixture *f, int fd, const uint8_t *body, size_t size)
{
    char unused;
    size_t begin = f->pause_at && f->pause_at < size ? f->pause_at : size;
    http_send(fd, body, begin);
    if (begin < size && read(f->gate[0], &unused, 1) == 0)
        http_send(fd, body + begin, size - begin);
}

static void let_go(struct fixture *f)
{
    close(f->gate[1]);
    f->gate[1] = -1;
}

static void answer_request(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (answer_metadata(f, s->request, fd))
        return;
    note_signer(f, s->request);
    unsigned first = 0, last = FILE_SIZE - 1;
    const char *range = strstr(s->request, "Range: bytes=");
    const char *answer = number > 1 && f->next ? f->next : f->head;
    if (number <= f->conflicts) {
        http_say(fd, "HTTP/1.1 409 Because\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    bool is_range = range && sscanf(range, "Range: bytes=%u-%u", &first, &last) == 2;
    __atomic_add_fetch(&f->ranges, is_range, __ATOMIC_RELAXED);
    if (answer) {
        http_say(fd, "%sConnection: close\r\n\r\n", answer);
        return;
    }
    last = last < FILE_SIZE ? last : FILE_SIZE - 1;
    size_t size = last - first + 1;
    http_say(fd, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
             is_range ? "206 Partial Content" : "200 OK", size);
    send_body(f, fd, f->content + first, size < f->sent_max ? size : f->sent_max);
}

static void start_server(struct fixture *f)
{
    char text[64];
    int pair[2];
    for (unsigned i = 0; i < FILE_SIZE; i++)
        f->content[i] = (uint8_t)(i * 7 + i / 256);
    f->sent_max = FILE_SIZE;
    assert_int_equal(pipe2(f->gate, O_CLOEXEC), 0);
    f->server.context = f;
    f->server.answer = answer_request;
    http_script_start(&f->server);
    snprintf(text, sizeof(text), "http://127.0.0.1:%u%s", f->server.port,
             f->has_no_bucket ? "" : "/fleet");
    must(url_parse(text, &f->url, &f->err), f->err);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    f->kilnd = pair[0];
    f->process = pair[1];
    assert_int_equal(pthread_create(&f->thread, NULL, run_server, f), 0);
}

SET_UP(set_up) { start_server(f); }

SET_UP(set_up_with_soon_expired_credentials)
{
    f->expiration = "2026-01-01T00:00:00Z";
    start_server(f);
}

SET_UP(set_up_with_temporary_credentials)
{
    f->expiration = "2500-01-01T00:00:00Z";
    start_server(f);
}

TEAR_DOWN(tear_down)
{
    close(f->kilnd);
    await_thread(f->thread, NULL);
    assert_int_equal(f->rc, KILN_OK);
    close(f->process);
    if (f->gate[1] >= 0)
        let_go(f);
    http_script_stop(&f->server);
    close(f->gate[0]);
    url_done(&f->url);
}

FIXTURE(http, set_up, tear_down);
FIXTURE(temporary, set_up_with_temporary_credentials, tear_down);
SET_UP(set_up_with_incomplete_credentials)
{
    f->expiration = "soon";
    start_server(f);
}
SET_UP(set_up_without_a_bucket)
{
    f->has_no_bucket = true;
    start_server(f);
}
FIXTURE(no_bucket, set_up_without_a_bucket, tear_down);
FIXTURE(incomplete, set_up_with_incomplete_credentials, tear_down);
FIXTURE(expiring, set_up_with_soon_expired_credentials, tear_down);

static void ask(struct fixture *f, uint64_t id, uint64_t offset, uint64_t size)
{
    struct fleet_request request = {
        .id = id, .name = "v1/p/00.pack", .offset = offset, .size = size, .size_max = FILE_SIZE
    };
    must(fleet_send_request(f->kilnd, &request, &f->err), f->err);
}

static struct fleet_answer receive(struct fixture *f)
{
    struct fleet_answer answer;
    struct pollfd readable = { .fd = f->kilnd, .events = POLLIN };
    assert_int_equal(poll(&readable, 1, WAIT_MAX_S * 1000), 1);
    must(fleet_receive_answer(f->kilnd, &answer, &f->err), f->err);
    return answer;
}

static void expect_part(struct fixture *f, const struct fleet_answer *answer, size_t offset,
                        size_t size)
{
    uint8_t got[FILE_SIZE + 1];
    assert_int_equal(answer->end, FLEET_END_DONE);
    assert_int_equal(fs_read_at(answer->fd, got, sizeof(got), 0), size);
    assert_memory_equal(got, f->content + offset, size);
    close(answer->fd);
}

TEST_F(http, a_whole_file_is_read)
{
    ask(f, 1, 0, 0);
    struct fleet_answer answer = receive(f);
    expect_part(f, &answer, 0, FILE_SIZE);
    http_script_stop(&f->server);
    assert_true(http_script_was_asked(&f->server, "GET /fleet/v1/p/00.pack HTTP/1.1"));
}

TEST_F(http, near_ranges_take_few_requests)
{
    ask(f, 0, 500, 20);
    ask(f, 1, 100, 10);
    ask(f, 2, 900, 100);
    static const size_t offsets[] = { 500, 100, 900 }, sizes[] = { 20, 10, 100 };
    for (size_t i = 0; i < 3; i++) {
        struct fleet_answer answer = receive(f);
        assert_in_range(answer.id, 0, 2);
        expect_part(f, &answer, offsets[answer.id], sizes[answer.id]);
    }
    http_script_stop(&f->server);
    assert_int_equal(f->server.requests, f->ranges);
    assert_in_range(f->ranges, 1, 2); /* one, if kiln-transfer received all requests at once */
}

static void expect_content(struct fixture *f, uint64_t id, size_t offset, size_t size)
{
    struct fleet_answer answer = receive(f);
    assert_int_equal(answer.id, id);
    expect_part(f, &answer, offset, size);
}

static void expect_requests(struct fixture *f, unsigned count)
{
    http_script_stop(&f->server);
    assert_int_equal(f->server.requests, count);
}

TEST_F(http, requests_after_each_other_take_one_read)
{
    for (unsigned i = 0; i < 84; i++) {
        ask(f, i, i * 10, 10);
        expect_content(f, i, i * 10, 10);
    }
    expect_requests(f, 1);
}

TEST_F(http, requests_in_another_order_take_two_reads)
{
    ask(f, 100, 500, 10);
    expect_content(f, 100, 500, 10);
    for (unsigned i = 0; i < 99; i++) {
        ask(f, i, 980 - i * 10, 10);
        expect_content(f, i, 980 - i * 10, 10);
    }
    expect_requests(f, 2);
}

TEST_F(http, requests_during_a_read_take_no_other_read)
{
    f->pause_at = 50;
    ask(f, 100, 0, 20);
    expect_content(f, 100, 0, 20); /* although the read has not ended */
    for (unsigned i = 0; i < 84; i++)
        ask(f, i, 50 + i * 10, 10);
    ask(f, 101, 20, 10);
    expect_content(f, 101, 20, 10);
    let_go(f);
    for (unsigned i = 0; i < 84; i++)
        expect_content(f, i, 50 + i * 10, 10);
    expect_requests(f, 1);
}

TEST_F(http, a_read_that_fails_answers_all_its_requests)
{
    f->pause_at = 50;
    f->sent_max = 60;
    for (unsigned i = 0; i < 3; i++)
        ask(f, i, i * 200, 20);
    expect_content(f, 0, 0, 20);
    ask(f, 3, 30, 10);
    expect_content(f, 3, 30, 10);
    let_go(f);
    for (unsigned i = 1; i < 3; i++) {
        struct fleet_answer answer = receive(f);
        assert_int_equal(answer.id, i);
        assert_int_equal(answer.end, FLEET_END_MALFORMED);
    }
    f->sent_max = FILE_SIZE;
    ask(f, 4, 30, 10);
    expect_content(f, 4, 30, 10);
    expect_requests(f, 2);
}

static void set_passed(uint64_t ns) { __atomic_store_n(&passed_ns, ns, __ATOMIC_RELAXED); }

/* The sanitizers check that nothing of the read is left. */
TEST_F(http, kilnd_may_close_the_socket_during_a_read)
{
    f->pause_at = 50;
    ask(f, 0, 0, 20);
    expect_content(f, 0, 0, 20);
}

/* The first read's connection hangs, so the second request needs a connection of its own. The
 * server answers it only when the first connection goes on. */
TEST_F(http, a_request_does_not_wait_for_a_read_that_hangs)
{
    f->pause_at = 50;
    set_passed(0);
    ask(f, 0, 0, 20);
    expect_content(f, 0, 0, 20);
    set_passed(FLEET_SILENCE_NS);
    ask(f, 1, 500, 10);
    ask(f, 2, 30, 10); /* these bytes have come */
    expect_content(f, 2, 30, 10);
    let_go(f);
    expect_content(f, 1, 500, 10);
    expect_requests(f, 2);
}

/* Repeats the request, because the read may end only after its answer has come. */
TEST_F(http, a_file_is_read_again_after_a_while)
{
    for (unsigned i = 0; i < 1000 && __atomic_load_n(&f->ranges, __ATOMIC_RELAXED) < 2; i++) {
        set_passed(i * FLEET_WINDOW_NS);
        ask(f, i, 0, 20);
        expect_content(f, i, 0, 20);
    }
    expect_requests(f, 2);
}

/* Waits until kiln-transfer drops windows although no request arrives. */
TEST_F(http, an_old_part_is_dropped_without_a_request)
{
    set_passed(0);
    ask(f, 0, 0, 20);
    expect_content(f, 0, 0, 20);
    for (unsigned i = 1; i < 100 && __atomic_load_n(&f->ranges, __ATOMIC_RELAXED) < 2; i++) {
        set_passed(FLEET_WINDOW_NS);
        usleep(1100000);
        set_passed(0);
        ask(f, i, 0, 20);
        expect_content(f, i, 0, 20);
    }
    expect_requests(f, 2);
}

TEST_F(http, statuses_are_told_apart)
{
    static const struct {
        const char *head;
        enum fleet_end end;
    } cases[] = {
        { "HTTP/1.1 404 Because\r\nContent-Length: 0\r\n", FLEET_END_ABSENT },
        { "HTTP/1.1 410 Because\r\nContent-Length: 0\r\n", FLEET_END_ABSENT },
        { "HTTP/1.1 401 Because\r\nContent-Length: 0\r\n", FLEET_END_FORBIDDEN },
        { "HTTP/1.1 403 Because\r\nContent-Length: 3\r\n\r\nxml", FLEET_END_FORBIDDEN },
        { "HTTP/1.1 400 Because\r\nContent-Length: 0\r\n", FLEET_END_REFUSED },
        { "HTTP/1.1 302 Because\r\nLocation: /\r\nContent-Length: 0\r\n", FLEET_END_REFUSED },
        { "HTTP/1.1 413 Because\r\nContent-Length: 0\r\n", FLEET_END_TOO_LARGE },
        { "HTTP/1.1 416 Because\r\nContent-Length: 0\r\n", FLEET_END_MALFORMED },
        { "HTTP/1.1 429 Because\r\nContent-Length: 0\r\n", FLEET_END_BUSY },
        { "HTTP/1.1 500 Because\r\nContent-Length: 0\r\n", FLEET_END_BROKEN },
        { "HTTP/1.1 503 Because\r\nContent-Length: 0\r\n", FLEET_END_BUSY },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f->head = cases[i].head;
        ask(f, i, 0, 10);
        struct fleet_answer answer = receive(f);
        if (answer.end != cases[i].end)
            fail_msg("'%.12s' ended with %d", cases[i].head, (int)answer.end);
    }
}

TEST_F(http, a_busy_server_says_how_long_it_wants_to_be_left_alone)
{
    f->head = "HTTP/1.1 503 Slow Down\r\nRetry-After: 17\r\nContent-Length: 0\r\n";
    ask(f, 1, 0, 10);
    struct fleet_answer answer = receive(f);
    assert_int_equal(answer.end, FLEET_END_BUSY);
    assert_int_equal(answer.wait_s, 17);
    f->head = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n";
    ask(f, 2, 0, 10);
    assert_int_equal(receive(f).wait_s, 0);
}

TEST_F(http, a_server_that_ignores_ranges_is_noticed)
{
    f->head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole";
    ask(f, 1, 10, 5);
    assert_int_equal(receive(f).end, FLEET_END_MALFORMED);
}

TEST_F(http, a_truncated_answer_is_noticed)
{
    f->sent_max = 7;
    ask(f, 1, 10, 20);
    assert_int_equal(receive(f).end, FLEET_END_MALFORMED);
}

TEST_F(http, a_range_of_another_size_is_noticed)
{
    f->head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nshort";
    ask(f, 1, 10, 20);
    assert_int_equal(receive(f).end, FLEET_END_MALFORMED);
}

TEST_F(http, a_file_above_its_limit_is_refused)
{
    f->head = "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n";
    ask(f, 1, 0, 0);
    assert_int_equal(receive(f).end, FLEET_END_MALFORMED);
}

TEST_F(http, a_huge_range_is_not_requested)
{
    ask(f, 1, 0, 1ull << 40);
    assert_int_equal(receive(f).end, FLEET_END_MALFORMED);
    http_script_stop(&f->server);
    assert_int_equal(f->server.requests, 0);
}

/* Reads a file. Returns the number of the credentials that signed the request. */
static unsigned signer_of_next_read(struct fixture *f)
{
    ask(f, 1, 0, 0);
    struct fleet_answer answer = receive(f);
    assert_int_equal(answer.end, FLEET_END_DONE);
    close(answer.fd);
    return __atomic_load_n(&f->signer, __ATOMIC_RELAXED);
}

TEST_F(temporary, credentials_of_the_instance_sign_requests)
{
    assert_int_equal(signer_of_next_read(f), 1);
    set_passed(3600ull * 1000000000u);
    assert_int_equal(signer_of_next_read(f), 1);
}

TEST_F(expiring, credentials_are_renewed_before_they_expire)
{
    set_passed(0);
    assert_int_equal(signer_of_next_read(f), 1);
    assert_int_equal(signer_of_next_read(f), 1); /* at most once a minute */
    set_passed(61ull * 1000000000u);
    assert_int_equal(signer_of_next_read(f), 2);
}

/* Reads a file after |seconds|. Returns how often the server for credentials was asked until then.
 */
static unsigned attempts_after(struct fixture *f, unsigned seconds)
{
    set_passed(seconds * 1000000000ull);
    assert_int_equal(signer_of_next_read(f), 0);
    return __atomic_load_n(&f->credentials, __ATOMIC_RELAXED);
}

TEST_F(incomplete, a_server_without_credentials_is_asked_less_and_less_often)
{
    assert_int_equal(attempts_after(f, 0), 1);
    assert_int_equal(attempts_after(f, 61 + 60), 2);
    assert_int_equal(attempts_after(f, 121 + 61), 2);
    assert_int_equal(attempts_after(f, 121 + 7200), 3);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(attempts_after(f, 7321 + (i + 1) * 7200), 4 + i);
}

static void send_put(struct fixture *f, struct fleet_request request)
{
    request.is_put = true;
    must(fs_memfd("record", &request.fd, &f->err), f->err);
    must(fs_write_all(request.fd, bytes_of(f->content, FILE_SIZE), &f->err), f->err);
    must(fleet_send_request(f->kilnd, &request, &f->err), f->err);
    close(request.fd);
}

TEST_F(http, a_file_is_deleted)
{
    struct fleet_request request = { .name = "v1/k/00/00", .is_remove = true, .fd = -1 };
    f->head = "HTTP/1.1 204 No Content\r\n";
    must(fleet_send_request(f->kilnd, &request, &f->err), f->err);
    struct fleet_answer answer = receive(f);
    assert_int_equal(answer.end, FLEET_END_DONE);
    assert_int_equal(answer.fd, -1);
    http_script_stop(&f->server);
    assert_true(http_script_was_asked(&f->server, "DELETE /fleet/v1/k/00/00 HTTP/1.1"));
}

static void put(struct fixture *f) { send_put(f, (struct fleet_request){ .name = "v1/k/00/00" }); }

static void replace(struct fixture *f, const char *tag)
{
    struct fleet_request request = { .name = "v1/i/00/current", .is_replace = true };
    snprintf(request.tag, sizeof(request.tag), "%s", tag);
    send_put(f, request);
}

#define PUT_DONE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
#define PUT_LATE "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n"

/* Returns whether the server's last request had this line. */
static bool had_line(struct fixture *f, const char *line)
{
    http_script_stop(&f->server);
    return http_script_was_asked(&f->server, line);
}

TEST_F(http, a_file_is_added_only_if_there_is_none)
{
    f->head = PUT_DONE;
    put(f);
    assert_int_equal(receive(f).end, FLEET_END_DONE);
    assert_true(had_line(f, "If-None-Match: *"));
}

TEST_F(http, a_file_is_replaced_only_if_it_has_its_tag)
{
    f->head = PUT_DONE;
    replace(f, "abc");
    assert_int_equal(receive(f).end, FLEET_END_DONE);
    assert_true(had_line(f, "If-Match: abc\r"));
}

TEST_F(http, a_tag_that_is_not_found_is_sent_in_quotation_marks)
{
    f->head = PUT_LATE;
    f->next = PUT_DONE;
    replace(f, "abc");
    assert_int_equal(receive(f).end, FLEET_END_DONE);
    assert_true(had_line(f, "If-Match: \"abc\"\r"));
}

TEST_F(http, a_file_that_was_changed_is_not_replaced)
{
    f->head = PUT_LATE;
    replace(f, "abc");
    assert_int_equal(receive(f).end, FLEET_END_EXISTS);
    http_script_stop(&f->server);
    assert_int_equal(f->server.requests, 2);
}

TEST_F(http, a_file_without_a_tag_is_replaced)
{
    f->head = PUT_DONE;
    replace(f, "");
    assert_int_equal(receive(f).end, FLEET_END_DONE);
    assert_false(had_line(f, "If-"));
}

TEST_F(http, a_store_without_conditions_gets_none)
{
    f->head = "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n";
    f->next = PUT_DONE;
    replace(f, "abc");
    assert_int_equal(receive(f).end, FLEET_END_DONE);
    assert_false(had_line(f, "If-"));
}

static void expect_tag(struct fixture *f, const char *head, const char *tag)
{
    f->head = head;
    ask(f, 1, 0, 0);
    struct fleet_answer answer = receive(f);
    assert_int_equal(answer.end, FLEET_END_DONE);
    assert_string_equal(answer.tag, tag);
    close(answer.fd);
}

TEST_F(http, the_tag_of_a_whole_file_is_returned)
{
    expect_tag(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"a-1\"\r\n", "a-1");
    expect_tag(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: a-1\r\n", "a-1");
    expect_tag(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: W/\"a-1\"\r\n", "");
    expect_tag(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"a\"b\"\r\n", "");
    expect_tag(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "");
}

static void ask_list(struct fixture *f, const char *token)
{
    struct fleet_request request = { .id = 1, .name = "v1/k", .is_list = true, .fd = -1 };
    snprintf(request.token, sizeof(request.token), "%s", token);
    must(fleet_send_request(f->kilnd, &request, &f->err), f->err);
}

TEST_F(http, the_names_of_a_directory_are_listed)
{
    static const char expected[] = "00 5 18446744073709551615\nff\n";
    char names[64] = "";
    f->head = "HTTP/1.1 200 OK\r\nContent-Length: 195\r\n\r\n"
              "<ListBucketResult><IsTruncated>true</IsTruncated>"
              "<NextContinuationToken>t+</NextContinuationToken>"
              "<Contents><Key>v1/k/00</Key><Size>5</Size></Contents><Prefix>v1/k/ff/</Prefix>"
              "</ListBucketResult>";
    ask_list(f, "");
    struct fleet_answer answer = receive(f);
    assert_int_equal(answer.end, FLEET_END_DONE);
    assert_string_equal(answer.token, "t+");
    assert_int_equal(fs_read_at(answer.fd, names, sizeof(names) - 1, 0), sizeof(expected) - 1);
    assert_string_equal(names, expected);
    close(answer.fd);
    assert_true(had_line(f, "GET /fleet?delimiter=%2F&list-type=2&prefix=v1%2Fk%2F HTTP/1.1"));
}

/* Otherwise kilnctl would try again, as with a store that fails. */
TEST_F(no_bucket, a_list_is_refused_if_the_url_has_no_bucket)
{
    ask_list(f, "");
    assert_int_equal(receive(f).end, FLEET_END_REFUSED);
}

TEST_F(http, a_busy_server_of_lists_says_how_long_it_wants_to_be_left_alone)
{
    f->head = "HTTP/1.1 503 Slow Down\r\nRetry-After: 17\r\nContent-Length: 0\r\n";
    ask_list(f, "");
    struct fleet_answer answer = receive(f);
    assert_int_equal(answer.end, FLEET_END_BUSY);
    assert_int_equal(answer.wait_s, 17);
}

TEST_F(http, the_next_page_is_requested_with_its_token)
{
    f->head = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>";
    ask_list(f, "a+b");
    assert_int_equal(receive(f).end, FLEET_END_MALFORMED);
    assert_true(had_line(f, "GET /fleet?continuation-token=a%2Bb&delimiter=%2F&list-type=2&"));
}

/* Sends |count| requests to put the same content. Each request comes with a descriptor. A process
 * whose limit of descriptors is low cannot receive all requests at once. */
static void put_many(struct fixture *f, unsigned count)
{
    struct fleet_request request = { .name = "v1/l/00/00", .is_put = true };
    must(fs_memfd("record", &request.fd, &f->err), f->err);
    must(fs_write_all(request.fd, bytes_of(f->content, 10), &f->err), f->err);
    for (unsigned i = 0; i < count; i++)
        must(fleet_send_request(f->kilnd, &request, &f->err), f->err);
    close(request.fd);
}

TEST_F(http, uploads_that_come_together_need_few_descriptors)
{
    enum { COUNT = 60, DESCRIPTORS = 64 };
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = DESCRIPTORS;
    f->head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    put_many(f, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(receive(f).end, FLEET_END_DONE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(http, each_signed_header_of_an_upload_is_sent)
{
    char line[64], *rest = NULL;
    f->head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
    put(f);
    assert_int_equal(receive(f).end, FLEET_END_DONE);
    http_script_stop(&f->server);

    char *names = strstr(f->server.request, "SignedHeaders=");
    assert_non_null(names);
    KILN_AUTO(mem) char *list = strndup(names + 14, strcspn(names + 14, ","));
    for (char *name = strtok_r(list, ";", &rest); name; name = strtok_r(NULL, ";", &rest)) {
        snprintf(line, sizeof(line), "\r\n%s:", name);
        if (!strcasestr(f->server.request, line))
            fail_msg("'%s' is signed, but not sent", name);
    }
}

TEST_F(http, the_id_of_a_user_may_have_a_colon)
{
    ask(f, 1, 0, 0);
    close(receive(f).fd);
    http_script_stop(&f->server);
    assert_says(f->server.request, "Credential=account:user/");
}

TEST_F(http, an_upload_that_conflicts_with_another_one_is_repeated)
{
    f->conflicts = 2;
    f->head = "HTTP/1.1 412 Because\r\nContent-Length: 0\r\n";
    put(f);
    assert_int_equal(receive(f).end, FLEET_END_EXISTS);
    http_script_stop(&f->server);
    assert_int_equal(f->server.requests, 3);
}

TEST_F(http, conflicts_without_end_do_not_count_as_a_broken_store)
{
    f->conflicts = UINT_MAX;
    put(f);
    assert_int_equal(receive(f).end, FLEET_END_REFUSED);
    http_script_stop(&f->server);
    assert_int_equal(f->server.requests, 4);
}

TEST_F(http, a_server_that_is_gone_cannot_be_reached)
{
    http_script_stop(&f->server);
    ask(f, 1, 0, 10);
    assert_int_equal(receive(f).end, FLEET_END_UNREACHABLE);
}
