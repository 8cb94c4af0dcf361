/* SPDX-License-Identifier: MIT */
#pragma once

/* A web server on loopback whose answers the test writes, including invalid ones. |answer| is
 * called in the server's thread. The test may read the results after http_script_stop. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_REQUEST_MAX 8192

struct http_script {
    /* Answers request |number| (counted from 1) on |fd|, which the server closes afterwards. */
    void (*answer)(struct http_script *script, unsigned number, int fd);
    void *context;
    bool running;
    /* text of the current request; after http_script_stop, of the last one */
    char request[HTTP_REQUEST_MAX];
    unsigned requests;
    uint16_t port;
    int listen_fd, stop[2];
    pthread_t thread;
};

void http_script_start(struct http_script *script);
void http_script_stop(struct http_script *script);
bool http_script_was_asked(const struct http_script *script, const char *line);

/* Sends a formatted text. Does not fail if the client has closed the connection. */
void http_say(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns false if the client has closed the connection. */
bool http_send(int fd, const void *data, size_t size);
void http_wait_for_hang_up(int fd);
/* Connects to |port| on loopback. Returns -1 on failure. */
int http_connect(uint16_t port);
/* Reserves a free port: no process can listen on it while the returned descriptor is open. The
 * caller owns the descriptor. */
int http_hold_port(uint16_t *ret_port);
