/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nginx {
    pid_t pid;
    uint16_t port, tls_port;
    char directory[128];
};

/* Serves the directory |files| over HTTP, and over TLS if |certificate| and |key| (PEM files)
 * are not NULL. If nginx is not installed, prints a message and returns false. */
bool nginx_start(struct nginx *n, const char *directory, const char *files, const char *certificate,
                 const char *key);
void nginx_stop(struct nginx *n);
/* Returns how many requests nginx answered with |status|. nginx writes its log after the answer, so
 * this function waits up to a minute until the log has |least| of these requests. */
unsigned nginx_answers(const struct nginx *n, int status, unsigned least);
