/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Runs a private nginx on a port of loopback, with its own configuration.
 *
 * Ownership  nginx_stop ends the process by its pid
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nginx {
    pid_t pid; /* 0 if nginx is not running */
    uint16_t port, tls_port;
    char directory[128]; /* private directory for configuration and logs */
};

/* Serves |files|; with TLS, too, if |certificate| and |key| (PEM files) are not NULL. Returns
 * false, after printing a message, if nginx is not installed. */
bool nginx_start(struct nginx *n, const char *directory, const char *files, const char *certificate,
                 const char *key);
/* Accepts an nginx that is not running. */
void nginx_stop(struct nginx *n);
/* Returns the number of requests that nginx answered with |status|. nginx logs after it has
 * answered, so this waits until the log has |least| such requests, at most for a minute. */
unsigned nginx_answers(const struct nginx *n, int status, unsigned least);
