/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/transfer/fetch_fixture.h"
#include "tests/support/random_bytes.h"

#include "common/base/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t pauses[PAUSES_KEPT];
unsigned pause_count;

static void count_pause(uint64_t ms)
{
    if (pause_count < PAUSES_KEPT)
        pauses[pause_count] = ms;
    pause_count++;
}

static void end_fetch(void *fixture)
{
    struct fixture *f = fixture;
    url_done(&f->url);
    close(f->fd);
}

void open_fetch(struct fixture *f)
{
    f->limit = 1 << 20;
    f->policy = fetch_policy_standard;
    f->policy.pause = count_pause;
    f->server.context = f;
    f->step = SIZE;
    pause_count = 0;
    random_bytes(f->content, SIZE, 1);
    random_bytes(f->other, SIZE, 2);
    must(fs_memfd("fetched", &f->fd, &f->err), f->err);
    test_at_end(end_fetch, f);
}

enum kiln_code get(struct fixture *f, const char *credentials, const char *path)
{
    char text[256];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(text, sizeof(text), "http://%s127.0.0.1:%u%s", credentials, f->server.port, path);
    must(url_parse(text, &f->url, &err), err);
    f->request =
        (struct fetch_request){ .url = &f->url, .size_limit = f->limit, .policy = &f->policy };
    enum kiln_code rc = fetch(&f->request, f->fd, &f->status_seen, &f->err);
    http_script_stop(&f->server);
    url_done(&f->url);
    return rc;
}

void expect_content(struct fixture *f, const uint8_t *content)
{
    static uint8_t got[SIZE + 1];
    assert_int_equal(pread(f->fd, got, sizeof(got), 0), SIZE);
    assert_memory_equal(got, content, SIZE);
}

off_t size_of_file(const struct fixture *f)
{
    struct stat seen;
    assert_int_equal(fstat(f->fd, &seen), 0);
    return seen.st_size;
}

static size_t range_start(const struct http_script *s)
{
    const char *range = strstr(s->request, "Range: bytes=");
    return range ? strtoull(range + strlen("Range: bytes="), NULL, 10) : 0;
}

void say_head(struct fixture *f, int fd, const char *status, size_t length)
{
    http_say(fd, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n", status, length);
    if (f->etag[0])
        http_say(fd, "ETag: %s\r\n", f->etag);
    if (f->date[0])
        http_say(fd, "Last-Modified: %s\r\nDate: Tue, 02 Jan 2024 00:00:00 GMT\r\n", f->date);
}

void send_file(struct fixture *f, int fd, const uint8_t *content)
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

void answer_file(struct http_script *s, unsigned number, int fd)
{
    struct fixture *f = s->context;
    if (number <= f->failures)
        http_say(fd, "HTTP/1.1 %d Because\r\nContent-Length: 0\r\n%sConnection: close\r\n\r\n",
                 f->status, f->extra ? f->extra : "");
    else
        send_file(f, fd, f->content);
}

void serve(struct fixture *f, void (*answer)(struct http_script *script, unsigned number, int fd))
{
    f->server.answer = answer;
    http_script_start(&f->server);
}
