/* SPDX-License-Identifier: MIT */
#include "common/base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define EXITING 0x4u /* PF_EXITING of Linux: proc_pid_stat(5), field 9 */

/* A process that was killed still has its files while the kernel frees its memory. */
static bool is_exiting(pid_t pid)
{
    char path[48], line[512] = "";
    unsigned flags = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const char *rest = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return rest && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & EXITING;
}

bool process_lives(pid_t pid)
{
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH))
        return false;
    return !is_exiting(pid);
}
