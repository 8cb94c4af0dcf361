/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A device of a test's making, whose clock is made up: what a kernel does, and how long it takes,
 * stands in its name.
 *
 *   "right 1.5"   computes what every right kernel computes, in 1.5 ms
 *   "wrong 1.5"   the same but for the last element
 *   "lazy 0.001"  writes nothing
 *   "broken 1"    cannot be launched
 *   "damaged 1"   cannot be loaded
 *   "fatal 1"     and the device with it: nothing works any more
 *
 * Ownership  close it as any other
 * Threading  one thread
 */
#include "libclient/device/device.h"

struct made_device {
    struct kiln_device base; /* first member */
    double now_ms;
    unsigned launches, memories, functions; /* the last two: alive */
    bool is_lost;
    const void *busy_stream; /* it writes to memory until it is waited for */
    bool was_read_early;     /* before that */
    uint64_t memory_left;    /* bytes; more cannot be had */
};

struct made_device *made_device_open(void);
