/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/types.h>

struct process_usage {
    long rss_kb;
    /* The proportional share (PSS) of memory without mapped files. The share of mapped files
     * grows by megabytes when another process that has mapped libc or kilnd ends. */
    long pss_kb;
    long private_kb;       /* part of RSS without files and memfds */
    unsigned files;        /* without memfds */
    unsigned memory_files; /* memfds, which contain objects */
    unsigned threads, children;
};

/* Fails the test if the process has ended. */
struct process_usage process_usage_of(pid_t pid);
