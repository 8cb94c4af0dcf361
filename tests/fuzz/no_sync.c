/* SPDX-License-Identifier: MIT */
/* Replaces libc's sync functions, also for SQLite, because fuzzing is faster without syncs. No file
 * here has to survive a power failure. */
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
