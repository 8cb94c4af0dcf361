/* SPDX-License-Identifier: MIT */
#pragma once

/* Lists the open descriptors of a process: files by their path; sockets, pipes and anonymous inodes
 * only by their kind. An idle process must have the same descriptors as the last time it was idle;
 * more of them are a leak. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DESCRIPTOR_KINDS_MAX 64u

struct descriptor_kind {
    char what[160]; /* "socket", "/memfd:kiln-object", "/tmp/.../kernels.db-wal" */
    unsigned count;
};

struct descriptors {
    struct descriptor_kind kinds[DESCRIPTOR_KINDS_MAX];
    unsigned kind_count;
};

/* The test fails if the process has ended or has more than DESCRIPTOR_KINDS_MAX kinds of
 * descriptors. */
void descriptors_list(pid_t pid, struct descriptors *ret_seen);
unsigned descriptors_count(const struct descriptors *d, const char *part);
void descriptors_keep_common(struct descriptors *d, const struct descriptors *other);
void descriptors_remove(struct descriptors *d, const char *part);
/* If the lists differ, writes the difference into |ret_text|, such as "socket: 3, before 2". */
bool descriptors_equal(const struct descriptors *now, const struct descriptors *before,
                       char ret_text[512]);
