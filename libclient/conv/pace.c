/* SPDX-License-Identifier: MIT */
#include "libclient/conv/pace.h"

#include "common/base/clock.h"

#include <errno.h>
#include <time.h>

#define SECOND_NS 1000000000ull

void pace_init(struct pace *pace, unsigned ms_per_s)
{
    pthread_condattr_t attributes;
    *pace = (struct pace){ .ms_per_s = ms_per_s };
    pthread_mutex_init(&pace->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pace->stopped, &attributes);
    pthread_condattr_destroy(&attributes);
}

void pace_done(struct pace *pace)
{
    pthread_cond_destroy(&pace->stopped);
    pthread_mutex_destroy(&pace->mutex);
}

uint64_t pace_rest_of(unsigned ms_per_s, uint64_t spent_ns)
{
    return spent_ns / ms_per_s * (PACE_MAX_MS - ms_per_s);
}

void pace_rest(struct pace *pace, uint64_t began_ns)
{
    if (!pace)
        return;
    uint64_t end = clock_monotonic_ns();
    pace_wait(pace, pace_rest_of(pace->ms_per_s, end - began_ns));
    pace->rested_ns += clock_monotonic_ns() - end;
}

void pace_wait(struct pace *pace, uint64_t ns)
{
    uint64_t until = clock_monotonic_ns() + ns;
    const struct timespec end = { .tv_sec = (time_t)(until / SECOND_NS),
                                  .tv_nsec = (long)(until % SECOND_NS) };
    int rc = 0;
    pthread_mutex_lock(&pace->mutex);
    while (ns > 0 && rc != ETIMEDOUT && !pace_is_stopped(pace))
        rc = pthread_cond_timedwait(&pace->stopped, &pace->mutex, &end);
    pthread_mutex_unlock(&pace->mutex);
}

void pace_stop(struct pace *pace)
{
    pthread_mutex_lock(&pace->mutex);
    atomic_store(&pace->is_stopped, true);
    pthread_cond_broadcast(&pace->stopped);
    pthread_mutex_unlock(&pace->mutex);
}

bool pace_is_stopped(const struct pace *pace) { return pace && atomic_load(&pace->is_stopped); }
