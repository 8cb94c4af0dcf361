/* SPDX-License-Identifier: MIT */
#pragma once

/* Gets the resources that a process uses, from /proc. */
#include <sys/types.h>

struct process_usage {
    long rss_kb;
    /* The proportional share (PSS) of memory without mapped files. The share of mapped files grows
     * by megabytes when another process that has mapped libc or kilnd ends. */
    long pss_kb;
    long private_kb;       /* part of RSS without files and memfds */
    unsigned files;        /* number of descriptors without memfds */
    unsigned memory_files; /* number of memfds, which contain objects */
    unsigned threads, children;
};

/* Fails the test if the process has ended. */
struct process_usage process_usage_of(pid_t pid);
