/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shows the progress of a long command.  On a terminal, redraws a bar.  Otherwise, prints a line
 * after each tenth of the total, and whenever it has printed nothing for ten seconds.
 *
 * Ownership  a plain value; the stream is borrowed
 * Threading  one thread at a time.  A ticker calls from its own thread, under the caller's lock
 * Time       callers pass the current time, so that tests need no clock
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
    FILE *out;
    const char *label;
    unsigned width; /* width of the terminal; 0 if the output is not a terminal */
    uint64_t total;
    uint64_t started_ns;
    uint64_t counted_ns;
    uint64_t drawn_ns;
    uint64_t said_ns;
    uint64_t done, failed;
    unsigned tenths;
    bool bytes; /* shows the counts as KiB, MiB, ... */
    /* shows neither a bar nor lines for tenths */
    bool no_total;
};

struct ticker {
    struct progress *progress;
    pthread_mutex_t *lock;
    pthread_t thread;
    pthread_cond_t stop;
    bool runs, stops;
};

/* Prepares |progress|, but draws nothing yet.  |total| may be 0.  After this call, the caller may
 * set |bytes| and |no_total|, and |started_ns| if the command began earlier. */
void progress_init(struct progress *progress, FILE *out, const char *label, uint64_t total,
                   uint64_t now_ns);
void progress_update(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns);
void progress_tick(struct progress *progress, uint64_t now_ns);
void progress_finish(struct progress *progress, uint64_t now_ns);
void progress_clear(struct progress *progress);

/* Starts a thread that calls progress_tick every second and holds |lock| during the call.  The
 * caller must not hold |lock|.  If no thread can be started, only progress_update changes the
 * display. */
void ticker_start(struct ticker *ticker, struct progress *progress, pthread_mutex_t *lock);
void ticker_stop(struct ticker *ticker);
