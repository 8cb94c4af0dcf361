/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shows the progress of find or tune.  On a terminal, redraws one line.  Otherwise, prints a line
 * after each tenth of the time budget or of the number of tries, whichever is reached first.
 *
 * Ownership  a plain value; the stream is borrowed
 * Threading  one thread
 */
#include <kiln/conv.h>

#include <stdio.h>

struct find_progress {
    FILE *out;
    const char *label;
    unsigned width;
    uint64_t drawn_ns;
    unsigned tenths;
    char solver[64];
};

void find_progress_init(struct find_progress *progress, FILE *out, const char *label);
/* A callback for struct kiln_conv_options.  Never stops the search. */
int find_progress_reported(void *context, const struct kiln_conv_progress *reported);
void find_progress_done(struct find_progress *progress);
