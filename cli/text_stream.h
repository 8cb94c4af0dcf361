/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A stream whose text is kept in memory.
 *
 * Role       replaces open_memstream(3), which may lose text without an error if memory runs out
 * Ownership  the caller owns the text
 * Threading  one thread at a time for each stream
 */
#include "common/base/bytes.h"

#include <stdio.h>

struct text_stream {
    FILE *out;
    struct buffer text;
};

bool text_stream_open(struct text_stream *stream);
/* Returns the written text, which the caller frees, or NULL if memory ran out. */
char *text_stream_end(struct text_stream *stream);
