/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Limits the part of each second that measuring takes, for measurements beside a job.
 *
 * Role       after each piece of work on the device, the measuring thread rests so long that the
 *            work took |ms_per_s| milliseconds of each second
 * Ownership  pace_init / pace_done
 * Threading  one thread measures; any thread may call pace_stop and pace_is_stopped
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PACE_MAX_MS 1000u

struct pace {
    unsigned ms_per_s;
    /* time of all rests, and of waits for kernels; used only by the measuring thread */
    uint64_t rested_ns;
    pthread_mutex_t mutex;
    pthread_cond_t stopped;
    atomic_bool is_stopped;
};

void pace_init(struct pace *pace, unsigned ms_per_s);
void pace_done(struct pace *pace);
/* Returns how long to rest after |spent_ns| of work.  |ms_per_s| is 1 to PACE_MAX_MS. */
uint64_t pace_rest_of(unsigned ms_per_s, uint64_t spent_ns);
/* Rests after the work that began at |began_ns|.  Returns at once if |pace| is NULL or stopped. */
void pace_rest(struct pace *pace, uint64_t began_ns);
/* Waits until |ns| have passed, or |pace| is stopped. */
void pace_wait(struct pace *pace, uint64_t ns);
void pace_stop(struct pace *pace);
/* Returns false if |pace| is NULL. */
bool pace_is_stopped(const struct pace *pace);
