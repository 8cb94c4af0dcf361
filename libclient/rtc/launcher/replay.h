/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads the notes of a compiler's processes.
 *
 * Role       passes the notes to the recording of this thread (files.h), as if this thread had read
 *            the files
 * Threading  the thread that called files_begin
 */
#include "common/base/bytes.h"

#include <stdbool.h>
#include <sys/stat.h>

struct replay_paths {
    const char *compiler;       /* without links */
    const char *input, *output; /* as on the compiler's command line */
    const char *dependencies;   /* as in command.h */
};

/* Passes |notes| to the recording of this thread.  Leaves out the outputs, temporary files, and the
 * input, which is part of the key. */
void replay_notes(struct bytes notes, const struct replay_paths *paths);
/* Returns whether the compiler has opened this file for writing, perhaps under another name. */
bool replay_has_written(struct bytes notes, const struct stat *file);
