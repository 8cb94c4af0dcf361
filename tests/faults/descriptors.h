/* SPDX-License-Identifier: MIT */
#pragma once

/* Lists the open descriptors of a process: files by path; sockets, pipes and anonymous inodes by
 * kind. If two listings of an idle process differ, the process leaks descriptors. */
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

/* Fails an assertion if the process has ended or has too many kinds of descriptors. */
void descriptors_list(pid_t pid, struct descriptors *ret_seen);
unsigned descriptors_count(const struct descriptors *d, const char *part);
void descriptors_keep_common(struct descriptors *d, const struct descriptors *other);
void descriptors_remove(struct descriptors *d, const char *part);
/* If the lists differ, |ret_text| receives the difference: "socket: 3, before 2". */
bool descriptors_equal(const struct descriptors *now, const struct descriptors *before,
                       char ret_text[512]);
