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

struct replay_paths { /* as on the compiler's command line */
    const char *input, *output;
};

/* Passes |notes| to the recording of this thread.  Leaves out the output, temporary files, and the
 * input, which is part of the key. */
void replay_notes(struct bytes notes, const struct replay_paths *paths);
