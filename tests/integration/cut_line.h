/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/http_script.h"

struct cut_line {
    struct http_script script;
    uint16_t to_port;
    /* number of answers still to be cut; valid only after cut_line_stop */
    unsigned cuts;
    /* An answer is cut after this many bytes. Shorter answers pass completely. */
    size_t cut_after;
};

/* Starts an HTTP proxy for |to_port|, which cuts the first |cuts| answers after |cut_after|
 * bytes. Shorter answers do not count. */
void cut_line_start(struct cut_line *line, uint16_t to_port, unsigned cuts, size_t cut_after);
void cut_line_stop(struct cut_line *line);
