/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Time: a monotonic clock for durations, the wall clock for records, and processor time.
 *
 * Threading  any thread
 */
#include <stdint.h>

uint64_t clock_monotonic_ns(void);
uint64_t clock_thread_ns(void); /* processor time of the calling thread; takes a system call */
uint64_t clock_wall_s(void);    /* seconds since the epoch */
uint64_t clock_wall_us(void);   /* microseconds since the epoch */
