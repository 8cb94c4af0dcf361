/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/types.h>

struct process_usage {
    long rss_kb;
    /* Proportional set size without mapped files. With files, it would grow by megabytes whenever
     * another process that maps libc or kilnd ends. */
    long pss_kb;
    long private_kb;       /* resident memory without mapped files and memfds */
    unsigned files;        /* without memfds */
    unsigned memory_files; /* number of memfds, which contain objects */
    unsigned threads, children;
};

/* The test fails if the process has ended. */
struct process_usage process_usage_of(pid_t pid);
