/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Progress of find or tune: on a terminal a line that redraws itself, otherwise a plain line after
 * each tenth of the time.
 *
 * Ownership  a plain value; the stream is borrowed
 * Threading  one thread
 */
#include <kiln/conv.h>

#include <stdio.h>

struct find_progress {
    FILE *out;
    const char *label;
    unsigned width; /* width of the terminal; 0 if the output is not a terminal */
    uint64_t drawn_ns;
    unsigned tenths; /* number of plain lines printed so far for |solver| */
    char solver[64]; /* the solver that is running */
};

void find_progress_init(struct find_progress *progress, FILE *out, const char *label);
/* Shows the progress; the callback for struct kiln_conv_options.  Never stops the search. */
int find_progress_reported(void *context, const struct kiln_conv_progress *reported);
/* Erases the line. */
void find_progress_done(struct find_progress *progress);
