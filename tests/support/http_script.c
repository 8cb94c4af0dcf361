/* SPDX-License-Identifier: MIT */
#include "tests/support/http_script.h"

#include "tests/support/test.h"
#include "tests/support/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

int http_hold_port(uint16_t *ret_port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static int listen_on_loopback(uint16_t *ret_port)
{
    int fd = http_hold_port(ret_port);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

int http_connect(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool read_request(struct http_script *s, int fd)
{
    size_t size = 0;
    while (size < sizeof(s->request) - 1) {
        ssize_t got = recv(fd, s->request + size, sizeof(s->request) - 1 - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        s->request[size] = '\0';
        if (strstr(s->request, "\r\n\r\n"))
            return true;
    }
    return false;
}

static void *serve(void *context)
{
    struct http_script *s = context;
    struct pollfd waits[] = { { .fd = s->stop[0], .events = POLLIN },
                              { .fd = s->listen_fd, .events = POLLIN } };
    while (await_work(waits, 2)) {
        int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        if (read_request(s, fd))
            s->answer(s, ++s->requests, fd);
        close(fd);
    }
    return NULL;
}

static void stop_at_end(void *script) { http_script_stop(script); }

void http_script_start(struct http_script *s)
{
    test_at_end(stop_at_end, s);
    s->requests = 0;
    s->running = true;
    s->listen_fd = listen_on_loopback(&s->port);
    assert_int_equal(pipe(s->stop), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

void http_script_stop(struct http_script *s)
{
    if (!s->running)
        return;
    assert_int_equal(write(s->stop[1], "", 1), 1);
    await_thread(s->thread, NULL);
    close(s->stop[0]);
    close(s->stop[1]);
    close(s->listen_fd);
    s->running = false;
}

bool http_script_was_asked(const struct http_script *s, const char *line)
{
    for (const char *at = s->request; at; at = strstr(at, "\r\n")) {
        at += at == s->request ? 0 : 2;
        if (strncasecmp(at, line, strlen(line)) == 0)
            return true;
    }
    return false;
}

bool http_send(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t put = send(fd, at, size, MSG_NOSIGNAL);
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

void http_say(int fd, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    http_send(fd, text, (size_t)size);
}

void http_wait_for_hang_up(int fd)
{
    char ignored[256];
    while (recv(fd, ignored, sizeof(ignored), 0) > 0) {
    }
}
