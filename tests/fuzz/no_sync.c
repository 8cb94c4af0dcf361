/* SPDX-License-Identifier: MIT */
/* Replaces libc's sync functions, also for SQLite. Files need not survive a power failure, and
 * fuzzing is faster without syncs. */
#include <unistd.h>

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc's names are reserved
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    (void)fd;
    return 0;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
