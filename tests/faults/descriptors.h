/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a process has open, by what it is: files by their path, sockets, pipes and the kernel's own
 * by their kind.
 *
 * Role       tells a leak exactly: two looks at a process at rest must be the same
 * Ownership  plain values
 * Threading  one thread
 */
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

/* Fails an assertion where the process is not there, or has more kinds than fit. */
void descriptors_look(pid_t pid, struct descriptors *ret_seen);
/* How many of those that have |part| in what they are. */
unsigned descriptors_count(const struct descriptors *d, const char *part);
/* Of each kind, what both have. */
void descriptors_keep_common(struct descriptors *d, const struct descriptors *other);
/* Takes them out. */
void descriptors_leave_out(struct descriptors *d, const char *part);
/* Whether both are the same; else |ret_text| says what is not: "socket: 3, before 2". */
bool descriptors_are(const struct descriptors *now, const struct descriptors *before,
                     char ret_text[512]);
