/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A private nginx on a port of loopback, with a configuration of its own.
 *
 * Ownership  nginx_stop ends the process that was started, by its id
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nginx {
    pid_t pid; /* 0 while none runs */
    uint16_t port, tls_port;
    char directory[128]; /* its own: configuration, logs */
};

/* Serves |files|; with |certificate| and |key| (PEM files; else NULL) by TLS too.  False, after
 * saying so, when there is no nginx here. */
bool nginx_start(struct nginx *n, const char *directory, const char *files, const char *certificate,
                 const char *key);
/* Accepts one that is not running. */
void nginx_stop(struct nginx *n);
/* How many requests were answered with |status|, once its log, which comes behind the answers,
 * tells of |least|, or does not for a minute. */
unsigned nginx_answers(const struct nginx *n, int status, unsigned least);
