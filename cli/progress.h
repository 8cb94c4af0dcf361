/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How far a long command is: a bar that redraws itself on a terminal, else a plain line at each
 * tenth of the way.
 *
 * Ownership  a plain value; the stream is borrowed
 * Threading  one thread at a time
 * Time       callers pass it, so tests need no clock
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
    FILE *out; /* borrowed */
    const char *label;
    unsigned width; /* of the terminal; 0: none */
    uint64_t total;
    uint64_t started_ns; /* of the command: the times that are shown */
    uint64_t counted_ns; /* of what is counted: the time left */
    uint64_t drawn_ns;
    unsigned tenths; /* plain lines printed so far */
    bool bytes;      /* what is counted: said in KiB, MiB, ... */
    bool no_total;   /* nobody knows how much there is: no bar, and no plain lines */
};

/* Draws nothing yet.  |total| may be 0.  |bytes|, |no_total| and |started_ns|, where the command
 * began earlier, are the caller's to set after it. */
void progress_init(struct progress *progress, FILE *out, const char *label, uint64_t total,
                   uint64_t now_ns);
void progress_update(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns);
/* All is done, whoever counted did not say so: the last plain line, where it is missing. */
void progress_finish(struct progress *progress, uint64_t now_ns);
/* Takes the bar away, so that other lines can be printed; the next update draws it again. */
void progress_clear(struct progress *progress);
