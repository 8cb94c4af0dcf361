/* SPDX-License-Identifier: MIT */
#pragma once

/* A web server on loopback, whose answers a test controls, including invalid ones. Only the
 * server's own thread calls |answer|. The test may read the results after http_script_stop. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HTTP_REQUEST_MAX 8192

struct http_script {
    /* Called for each request, with its number counted from 1. Afterwards the server closes the
     * connection. */
    void (*answer)(struct http_script *script, unsigned number, int fd);
    void *context;
    bool running;
    char request[HTTP_REQUEST_MAX]; /* the current request; after http_script_stop, the last one */
    unsigned requests;
    uint16_t port;
    int listen_fd, stop[2];
    pthread_t thread;
};

void http_script_start(struct http_script *script);
/* Does nothing if the server is not running. */
void http_script_stop(struct http_script *script);
/* Returns true if a line of |request| begins with |line|. */
bool http_script_was_asked(const struct http_script *script, const char *line);

/* Sends a formatted text. If the client has closed the connection, this is not an error. */
void http_say(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns false if the client has closed the connection. */
bool http_send(int fd, const void *data, size_t size);
void http_wait_for_hang_up(int fd);
/* Returns -1 on failure. */
int http_connect(uint16_t port);
/* Reserves a port. No process can listen on the port while the returned descriptor, which the
 * caller owns, is open. */
int http_hold_port(uint16_t *ret_port);
