/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs a private nginx on a port of loopback, with its own configuration. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nginx {
    pid_t pid; /* 0 if nginx is not running */
    uint16_t port, tls_port;
    char directory[128];
};

/* Serves the directory |files| over HTTP. Also serves it over TLS if |certificate| and |key| (PEM
 * files) are not NULL. If nginx is not installed, prints a message and returns false. */
bool nginx_start(struct nginx *n, const char *directory, const char *files, const char *certificate,
                 const char *key);
/* Does nothing if nginx is not running. */
void nginx_stop(struct nginx *n);
/* Returns the number of requests that nginx answered with |status|. nginx logs after it has
 * answered, so this waits until the log has |least| such requests, at most for a minute. */
unsigned nginx_answers(const struct nginx *n, int status, unsigned least);
