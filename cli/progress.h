/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Progress of a long command: on a terminal a bar that redraws itself, otherwise a plain line after
 * each tenth of the total.
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
    uint64_t started_ns; /* start of the command, for the elapsed time shown */
    uint64_t counted_ns; /* start of the counted work, for the estimate of the time left */
    uint64_t drawn_ns;
    unsigned tenths; /* plain lines printed so far */
    bool bytes;      /* the counted units are bytes, shown in KiB, MiB, ... */
    bool no_total;   /* the total is unknown: no bar and no plain lines */
};

/* Draws nothing yet.  |total| may be 0.  The caller may then set |bytes| and |no_total|, and
 * |started_ns| if the command began earlier. */
void progress_init(struct progress *progress, FILE *out, const char *label, uint64_t total,
                   uint64_t now_ns);
void progress_update(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns);
/* Marks all work as done: prints the last plain line if it was not printed yet. */
void progress_finish(struct progress *progress, uint64_t now_ns);
/* Erases the bar so that other lines can be printed; the next update redraws it. */
void progress_clear(struct progress *progress);
