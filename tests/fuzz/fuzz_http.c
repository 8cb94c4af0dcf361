/* SPDX-License-Identifier: MIT */
/* Tests transfers with a hostile web server on loopback. Each part of the input is the reply to one
 * request. If a reply redirects to another host, that request also comes to this server. */
#include "tests/fuzz/fuzz.h"

#include "engine/transfer/fetch.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define REQUEST_MAX 8192
#define SIZE_LIMIT (64u << 10)
#define ATTEMPTS_MAX 4

static struct {
    pthread_mutex_t mutex; /* protects the input */
    struct reader input;
    int listener;
} server = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Reads one request, and replies with the next part of the input. If the client stops reading,
 * drops the rest of the reply. */
static void answer(int fd)
{
    char request[REQUEST_MAX];
    size_t size = 0;
    ssize_t got = 1;
    while (got > 0 && size < sizeof(request) && !memmem(request, size, "\r\n\r\n", 4)) {
        got = recv(fd, request + size, sizeof(request) - size, 0);
        size += got > 0 ? (size_t)got : 0;
    }
    pthread_mutex_lock(&server.mutex);
    struct bytes part = fuzz_part(&server.input);
    KILN_AUTO(mem) uint8_t *copy = fuzz_copy(part);
    pthread_mutex_unlock(&server.mutex);
    (void)!send(fd, copy, part.size, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    while (recv(fd, request, sizeof(request), 0) > 0) {
    }
}

static void *serve(void *context)
{
    (void)context;
    for (;;) {
        KILN_AUTO(fd) int fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            answer(fd);
    }
    return NULL;
}

static void start_server(void)
{
    static pthread_t thread;
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof(address);
    char proxy[64];
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_expect(server.listener >= 0 &&
                    bind(server.listener, (struct sockaddr *)&address, size) == 0 &&
                    listen(server.listener, 16) == 0 &&
                    getsockname(server.listener, (struct sockaddr *)&address, &size) == 0,
                "a port on loopback");
    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", ntohs(address.sin_port));
    setenv("http_proxy", proxy, 1);
    setenv("https_proxy", proxy, 1);
    setenv("all_proxy", proxy, 1);
    unsetenv("no_proxy");
    unsetenv("NO_PROXY");
    fuzz_expect(pthread_create(&thread, NULL, serve, NULL) == 0, "a thread");
}

static void no_pause(uint64_t ms) { (void)ms; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    struct kiln_err err = KILN_ERR_INIT;
    struct fetch_policy policy = fetch_policy_standard;
    struct url url = { 0 };
    struct stat seen;
    long status = 0;
    if (!started)
        start_server();
    started = true;
    policy.pause = no_pause;
    policy.attempts_max = ATTEMPTS_MAX;
    pthread_mutex_lock(&server.mutex);
    server.input = reader_of(bytes_of(data, size));
    pthread_mutex_unlock(&server.mutex);
    fuzz_expect(url_parse("http://packages.invalid/gfx90a68.kdb", &url, &err) == KILN_OK, "a URL");
    const struct fetch_request request = { .url = &url,
                                           .size_limit = SIZE_LIMIT,
                                           .policy = &policy };
    KILN_AUTO(fd) int fd = fuzz_memfd((struct bytes){ 0 }, false);
    enum kiln_code rc = fetch(&request, fd, &status, &err);
    fuzz_expect(rc == KILN_OK || err.text[0], "a failure is a sentence");
    fuzz_expect(fstat(fd, &seen) == 0 && seen.st_size <= SIZE_LIMIT, "no more than the limit");
    pthread_mutex_lock(&server.mutex);
    server.input = reader_of((struct bytes){ 0 });
    pthread_mutex_unlock(&server.mutex);
    url_done(&url);
    return 0;
}
