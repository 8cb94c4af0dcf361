/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How far find or tune is: a line that redraws itself on a terminal, else a plain line at each
 * tenth of the time.
 *
 * Ownership  a plain value; the stream is borrowed
 * Threading  one thread
 */
#include <kiln/conv.h>

#include <stdio.h>

struct find_progress {
    FILE *out;
    const char *label;
    unsigned width; /* of the terminal; 0: none */
    uint64_t drawn_ns;
    unsigned tenths; /* plain lines so far, of the solver */
    char solver[64]; /* that they are of */
};

void find_progress_init(struct find_progress *progress, FILE *out, const char *label);
/* For struct kiln_conv_options; never has enough. */
int find_progress_reported(void *context, const struct kiln_conv_progress *reported);
/* Takes the line away. */
void find_progress_done(struct find_progress *progress);
