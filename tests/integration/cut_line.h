/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A line to a web server on loopback that gets cut.
 *
 * Ownership  cut_line_stop ends the thread of it
 */
#include "tests/support/http_script.h"

struct cut_line {
    struct http_script script; /* its port is where the line begins */
    uint16_t to_port;          /* where it leads */
    unsigned cuts;             /* answers still to be cut; read after stop */
    size_t cut_after;          /* bytes; shorter answers go through */
};

/* |cuts| answers get no further than |cut_after| bytes. */
void cut_line_start(struct cut_line *line, uint16_t to_port, unsigned cuts, size_t cut_after);
/* Accepts one that does not run. */
void cut_line_stop(struct cut_line *line);
