/* SPDX-License-Identifier: MIT */
#include "cli/driver/host_memory.h"

#include "common/base/units.h"

#include <stdio.h>
#include <string.h>

static uint64_t read_number(const char *path)
{
    unsigned long long number = 0;
    FILE *in = fopen(path, "re");
    if (!in)
        return UINT64_MAX;
    int got = fscanf(in, "%llu", &number);
    fclose(in);
    return got == 1 ? number : UINT64_MAX;
}

static uint64_t machine_available(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *in = fopen("/proc/meminfo", "re");
    if (!in)
        return UINT64_MAX;
    bool found = false;
    while (!found && fgets(line, sizeof(line), in))
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    fclose(in);
    return found ? kib * 1024 : UINT64_MAX;
}

/* Finds the control group in the line "0::/path" of /proc/self/cgroup.  In a container, the path is
 * "/". */
static void group_directory(char directory[512])
{
    char line[400];
    snprintf(directory, 512, "/sys/fs/cgroup");
    FILE *in = fopen("/proc/self/cgroup", "re");
    while (in && fgets(line, sizeof(line), in)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(directory, 512, "/sys/fs/cgroup%s",
                     strcmp(line + 3, "/") == 0 ? "" : line + 3);
    }
    if (in)
        fclose(in);
}

static uint64_t group_available(void)
{
    char directory[512];
    char path[544];
    group_directory(directory);
    snprintf(path, sizeof(path), "%s/memory.max", directory);
    uint64_t most = read_number(path);
    snprintf(path, sizeof(path), "%s/memory.current", directory);
    uint64_t used = read_number(path);
    if (most == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    return most > used ? most - used : 0;
}

uint64_t host_memory_available(void)
{
    uint64_t machine = machine_available();
    uint64_t group = group_available();
    return machine < group ? machine : group;
}

int host_memory_check(uint64_t bytes, const char *purpose, struct kiln_error *err)
{
    char need[UNITS_TEXT_MAX], have[UNITS_TEXT_MAX];
    uint64_t available = host_memory_available();
    if (bytes <= available)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_NO_MEMORY,
                    "%s needs %s of memory, but only %s is free: choose a smaller batch (-n), or "
                    "skip the reference with -V 0",
                    purpose, units_size(bytes, need), units_size(available, have));
}
