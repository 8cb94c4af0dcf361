/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/locks.h"

#include <pthread.h>

static pthread_mutex_t locks[RTC_LOCKS];

static void before_fork(void)
{
    for (int i = 0; i < RTC_LOCKS; i++)
        pthread_mutex_lock(&locks[i]);
}

static void after_fork(void)
{
    for (int i = RTC_LOCKS - 1; i >= 0; i--)
        pthread_mutex_unlock(&locks[i]);
}

static void create_locks(void)
{
    for (int i = 0; i < RTC_LOCKS; i++)
        pthread_mutex_init(&locks[i], NULL);
    pthread_atfork(before_fork, after_fork, after_fork);
}

void rtc_lock(enum rtc_lock which)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, create_locks);
    pthread_mutex_lock(&locks[which]);
}

void rtc_unlock(enum rtc_lock which) { pthread_mutex_unlock(&locks[which]); }
