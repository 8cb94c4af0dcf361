/* SPDX-License-Identifier: MIT */
#pragma once

/* A fake device with a fake clock. A kernel's name says what it does and how long it takes:
 *
 *   "right 1.5"   computes the correct result in 1.5 ms
 *   "wrong 1.5"   computes the correct result, except for the last element
 *   "real 1.5"    computes the correct result, and really takes 1.5 ms
 *   "lazy 0.001"  writes nothing
 *   "broken 1"    cannot be launched
 *   "damaged 1"   cannot be loaded
 *   "large 1"     does not fit into memory
 *   "fatal 1"     fails, and so does every later call of the device */
#include "libclient/device/device.h"

struct made_device {
    struct kiln_device base; /* first member */
    double now_ms;
    /* number of launches so far; numbers of memory objects and of functions that exist */
    unsigned launches, memories;
    atomic_uint functions;     /* the job and its thread load kernels at the same time */
    atomic_uint large_kernels; /* number of attempts to load a kernel that does not fit */
    bool is_lost;
    const void *busy_stream;  /* the stream whose pending work still writes to memory */
    bool was_own_stream_used; /* whether memory was copied on the device's own stream */
    bool has_blocking_stream; /* whether a stream was created that is not apart */
    bool is_relaxed;          /* whether a thread chose not to break captures */
    bool was_read_early;      /* whether memory was read before the stream was finished */
    uint64_t memory_used_max; /* the largest sum of allocations so far */
    uint64_t memory_used;
    uint64_t memory_left; /* in bytes; larger allocations fail */
};

struct made_device *made_device_open(void);
