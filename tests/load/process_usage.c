/* SPDX-License-Identifier: MIT */
#include "tests/load/process_usage.h"

#include "tests/support/children.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long number_in(pid_t pid, const char *file, const char *name)
{
    char path[64], line[256];
    long number = -1;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    FILE *stream = fopen(path, "re");
    assert_non_null(stream);
    while (fgets(line, sizeof(line), stream)) {
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %ld", &number);
    }
    fclose(stream);
    assert_true(number >= 0);
    return number;
}

static void count_files(pid_t pid, struct process_usage *usage)
{
    char directory[64], link[64 + 256], target[64];
    snprintf(directory, sizeof(directory), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        snprintf(link, sizeof(link), "%s/%s", directory, e->d_name);
        ssize_t got = readlink(link, target, sizeof(target) - 1);
        target[got > 0 ? got : 0] = '\0';
        bool in_memory = strncmp(target, "/memfd:", 7) == 0;
        usage->memory_files += in_memory;
        usage->files += got > 0 && !in_memory;
    }
    closedir(dir);
}

static unsigned count_children(pid_t pid)
{
    pid_t children[CHILDREN_MAX];
    return children_of(pid, children, CHILDREN_MAX);
}

struct process_usage process_usage_of(pid_t pid)
{
    struct process_usage usage = { .rss_kb = number_in(pid, "smaps_rollup", "Rss"),
                                   .pss_kb = number_in(pid, "smaps_rollup", "Pss_Anon") +
                                             number_in(pid, "smaps_rollup", "Pss_Shmem"),
                                   .private_kb = number_in(pid, "status", "RssAnon"),
                                   .threads = (unsigned)number_in(pid, "status", "Threads"),
                                   .children = count_children(pid) };
    count_files(pid, &usage);
    return usage;
}
