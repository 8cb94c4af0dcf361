/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A web server on loopback that does what a test tells it, rudeness included.
 *
 * Ownership  http_script_stop ends the thread and closes the port
 * Threading  |answer| runs on the server's own thread, one connection at a time; what it wrote is
 *            read after http_script_stop
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
    char request[HTTP_REQUEST_MAX]; /* the one that is being answered; after stop the last one */
    unsigned requests;              /* ever */
    uint16_t port;
    int listen_fd, stop[2];
    pthread_t thread;
};

void http_script_start(struct http_script *script);
/* Accepts one that does not run. */
void http_script_stop(struct http_script *script);
/* Whether a line of |request| begins so. */
bool http_script_was_asked(const struct http_script *script, const char *line);

/* To the client: a client that has gone is not an error. */
void http_say(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* False when the client has gone. */
bool http_send(int fd, const void *data, size_t size);
/* Until the client hangs up. */
void http_wait_for_hang_up(int fd);
/* Connected to |port| of loopback; -1. */
int http_connect(uint16_t port);
/* A port that nobody listens on while the descriptor, the caller's, is open, nor can. */
int http_hold_port(uint16_t *ret_port);
