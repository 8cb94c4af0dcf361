/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A web server on loopback whose answers, also invalid ones, a test controls.
 *
 * Ownership  http_script_stop ends the thread and closes the port
 * Threading  |answer| runs on the server's own thread, one connection at a time; read its
 *            results after http_script_stop
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_REQUEST_MAX 8192

struct http_script {
    /* Called for each request with its number from 1; the connection is closed after it. */
    void (*answer)(struct http_script *script, unsigned number, int fd);
    void *context;
    bool running;
    char request[HTTP_REQUEST_MAX]; /* the current request; after stop the last one */
    unsigned requests;              /* number of requests so far */
    uint16_t port;
    int listen_fd, stop[2];
    pthread_t thread;
};

void http_script_start(struct http_script *script);
/* Accepts a server that does not run. */
void http_script_stop(struct http_script *script);
/* True if a line of |request| begins with this text. */
bool http_script_was_asked(const struct http_script *script, const char *line);

/* Sends to the client; a closed connection is not an error. */
void http_say(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* False if the client has closed the connection. */
bool http_send(int fd, const void *data, size_t size);
/* Waits until the client closes the connection. */
void http_wait_for_hang_up(int fd);
/* Connects to |port| of loopback; -1: failed. */
int http_connect(uint16_t port);
/* Reserves a port: nobody can listen on it while the descriptor is open, which the caller owns. */
int http_hold_port(uint16_t *ret_port);
