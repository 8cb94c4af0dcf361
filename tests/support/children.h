/* SPDX-License-Identifier: MIT */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <sys/types.h>

#define CHILDREN_MAX 256u

/* Stores the pids of the children that any thread of |pid| has started. Returns their number. */
static inline unsigned children_of(pid_t pid, pid_t *ret_pids, unsigned max)
{
    char path[300];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *thread; threads && (thread = readdir(threads));) {
        snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, thread->d_name);
        FILE *list = thread->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (list && count < max && fscanf(list, "%d", &ret_pids[count]) == 1)
            count++;
        if (list)
            fclose(list);
    }
    if (threads)
        closedir(threads);
    return count;
}
