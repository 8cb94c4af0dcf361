/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A proxy to a web server on loopback that cuts connections.
 *
 * Ownership  cut_line_stop ends the proxy's thread
 */
#include "tests/support/http_script.h"

struct cut_line {
    struct http_script script; /* its port is the proxy's */
    uint16_t to_port;          /* the web server's port */
    unsigned cuts;    /* how many answers are still to be cut; read it after cut_line_stop */
    size_t cut_after; /* in bytes; shorter answers are complete */
};

/* Cuts |cuts| answers after |cut_after| bytes. */
void cut_line_start(struct cut_line *line, uint16_t to_port, unsigned cuts, size_t cut_after);
/* Accepts a proxy that does not run. */
void cut_line_stop(struct cut_line *line);
