/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A stream whose text is kept in memory.
 *
 * Role       replaces open_memstream(3), which loses a part of the text if an allocation fails, and
 *            reports no error
 * Ownership  the caller owns the text
 * Threading  one thread at a time for each stream
 */
#include "common/base/bytes.h"

#include <stdio.h>

struct text_stream {
    FILE *out;
    struct buffer text; /* owned until text_stream_end */
};

/* Returns false if out of memory.  Otherwise, call text_stream_end. */
bool text_stream_open(struct text_stream *stream);
/* Closes the stream.  Returns everything that was written to it, or NULL if memory ran out. */
char *text_stream_end(struct text_stream *stream);
