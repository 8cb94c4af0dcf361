/* SPDX-License-Identifier: MIT */

/* A clock_gettime(2) whose monotonic clock runs at a hundredth of the real speed. Tests start
 * programs with it in LD_PRELOAD, so that a time limit in the program cannot pass before the test
 * has done its part. */
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOWER 100u
#define SECOND 1000000000u

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret_now);
    if (rc < 0 || clock != CLOCK_MONOTONIC)
        return rc;
    uint64_t ns = ((uint64_t)ret_now->tv_sec * SECOND + (uint64_t)ret_now->tv_nsec) / SLOWER;
    *ret_now = (struct timespec){ .tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND) };
    return 0;
}
