/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What libkiln-rtc needs to know about the contents of the files that compiles read.
 *
 * Role       reads each file once in a process, because most compiles of a process read the same
 *            headers.  Recognises a file by its device, inode number, size and times
 * Ownership  the table of known files belongs to the process
 * Threading  any thread
 */
#include "common/base/bytes.h"
#include "common/base/digest.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct names_text;

/* Identifies a state of a file.  Has no padding, so memcmp can compare it. */
struct file_state {
    uint64_t device, inode, size, mtime_ns, ctime_ns;
};

struct contents {
    struct digest digest;
    bool has_time; /* may contain __DATE__, __TIME__ or __TIMESTAMP__ */
    /* NULL if the table of known files is full, or the file has only just changed */
    const struct names_text *names;
};

struct file_state file_state_of(const struct stat *seen);
bool file_state_equal(const struct file_state *a, const struct file_state *b);
/* Returns whether a file or directory was changed at |now_ns| or later, by the clock that Linux
 * uses for the times of files. */
bool file_state_is_since(const struct file_state *state, uint64_t now_ns);
uint64_t file_clock_ns(void);

/* Finds out about the contents of the file at |path|, whose state is |state|.  Returns false if the
 * file cannot be read, or has another state. */
bool contents_of(const char *path, const struct file_state *state, struct contents *ret_contents);
