/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A proxy to a web server on loopback that cuts connections.
 *
 * Ownership  cut_line_stop ends the proxy's thread
 */
#include "tests/support/http_script.h"

struct cut_line {
    struct http_script script; /* its port is the port of the proxy */
    uint16_t to_port;          /* the port of the web server */
    /* number of answers that are still to be cut; read it only after cut_line_stop */
    unsigned cuts;
    size_t cut_after; /* bytes of an answer before the cut; shorter answers are complete */
};

/* Starts the proxy, which cuts |cuts| answers after |cut_after| bytes. */
void cut_line_start(struct cut_line *line, uint16_t to_port, unsigned cuts, size_t cut_after);
/* Accepts a proxy that is not running. */
void cut_line_stop(struct cut_line *line);
