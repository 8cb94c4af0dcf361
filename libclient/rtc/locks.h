/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The locks of libkiln-rtc.
 *
 * Role       protects the tables of a process.  fork() waits until no thread holds a lock, so a
 *            forked child finds every table whole and every lock free
 * Threading  any thread.  A thread that holds a lock may take only locks that follow it in the enum
 */

enum rtc_lock {
    RTC_LOCK_LIBRARIES,
    RTC_LOCK_PROGRAMS,
    RTC_LOCK_INFOS,
    RTC_LOCK_CONTENTS,
    RTC_LOCK_CONNECTION,
    RTC_LOCK_ENVIRONMENT,
    RTC_LOCK_COUNTS,
    RTC_LOCKS
};

void rtc_lock(enum rtc_lock which);
void rtc_unlock(enum rtc_lock which);
