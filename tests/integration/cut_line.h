/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/http_script.h"

struct cut_line {
    struct http_script script;
    uint16_t to_port;
    /* number of answers that are still to be cut; valid only after cut_line_stop */
    unsigned cuts;
    /* number of bytes after which an answer is cut; shorter answers stay complete */
    size_t cut_after;
};

/* Starts a proxy that cuts the first |cuts| answers of at least |cut_after| bytes. */
void cut_line_start(struct cut_line *line, uint16_t to_port, unsigned cuts, size_t cut_after);
/* Does nothing if the proxy is not running. */
void cut_line_stop(struct cut_line *line);
