/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Progress of a long command: on a terminal a bar that redraws itself, otherwise a plain line after
 * each tenth of the total, and every ten seconds.
 *
 * Ownership  a plain value; the stream is borrowed
 * Threading  one thread at a time.  A ticker calls from a thread of its own, under the caller's
 *            lock
 * Time       callers pass it, so that tests need no clock
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
    FILE *out; /* borrowed */
    const char *label;
    unsigned width; /* width of the terminal; 0 if the output is not a terminal */
    uint64_t total;
    uint64_t started_ns; /* start of the command, for the elapsed time shown */
    uint64_t counted_ns; /* start of the counted work, for the estimate of the time left */
    uint64_t drawn_ns;
    uint64_t said_ns; /* time of the last plain line, or of the start */
    uint64_t done, failed;
    unsigned tenths; /* number of tenths of the total that plain lines have reported */
    bool bytes;      /* the counted units are bytes, shown in KiB, MiB, ... */
    /* The total is unknown, so there is no bar, and there are no lines for tenths. */
    bool no_total;
};

/* Updates the display every second during a long step in which nothing calls progress_update. */
struct ticker {
    struct progress *progress; /* borrowed, like |lock|, which protects it */
    pthread_mutex_t *lock;
    pthread_t thread;
    pthread_cond_t stop;
    bool runs, stops;
};

/* Prepares |progress|, and draws nothing yet.  |total| may be 0.  After this call, the caller may
 * set |bytes| and |no_total|, and |started_ns| if the command began earlier. */
void progress_init(struct progress *progress, FILE *out, const char *label, uint64_t total,
                   uint64_t now_ns);
void progress_update(struct progress *progress, uint64_t done, uint64_t failed, uint64_t now_ns);
/* Shows the time that has passed, if something is drawn or a plain line is due. */
void progress_tick(struct progress *progress, uint64_t now_ns);
/* Marks all work as done: prints the last plain line if it was not printed yet. */
void progress_finish(struct progress *progress, uint64_t now_ns);
/* Erases the bar so that other lines can be printed; the next update redraws it. */
void progress_clear(struct progress *progress);

/* Starts a ticker; the caller must not hold the lock.  If no thread can be started, the display
 * only changes when progress_update is called. */
void ticker_start(struct ticker *ticker, struct progress *progress, pthread_mutex_t *lock);
void ticker_stop(struct ticker *ticker);
