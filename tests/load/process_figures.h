/* SPDX-License-Identifier: MIT */
#pragma once

/* What a process has of this host, from /proc. */
#include <sys/types.h>

struct process_figures {
    long rss_kb;
    /* The proportional share (PSS), without mapped files: their share grows by megabytes when
     * another process that has mapped libc or kilnd ends. */
    long pss_kb;
    long own_kb;           /* of RSS: neither of files nor of objects in memory */
    unsigned files;        /* descriptors but those of objects in memory */
    unsigned memory_files; /* those */
    unsigned threads, children;
};

/* The test fails where the process is gone. */
struct process_figures process_figures_of(pid_t pid);
