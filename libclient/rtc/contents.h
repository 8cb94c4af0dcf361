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
#include <sys/stat.h>

struct contents {
    struct digest digest;
    bool has_time; /* may contain __DATE__, __TIME__ or __TIMESTAMP__ */
    bool has_name; /* contains a word that stands for a file's name, such as __FILE__ */
};

/* Finds out about the contents of the file at |path|, whose state is |seen|.  Returns false if the
 * file cannot be read. */
bool contents_of(const char *path, const struct stat *seen, struct contents *ret_contents);
/* Reads a file into |ret_content|, which this function initialises.  Returns false if the file
 * cannot be read. */
bool contents_read(const char *path, struct buffer *ret_content);
