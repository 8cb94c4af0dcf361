/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/http_script.h"

struct cut_line {
    struct http_script script;
    uint16_t to_port;
    /* how many answers are still to be cut; valid only after cut_line_stop */
    unsigned cuts;
    size_t cut_after; /* bytes of an answer before the cut; shorter answers are complete */
};

/* Cuts the first |cuts| answers that have at least |cut_after| bytes. */
void cut_line_start(struct cut_line *line, uint16_t to_port, unsigned cuts, size_t cut_after);
/* Does nothing if the proxy is not running. */
void cut_line_stop(struct cut_line *line);
