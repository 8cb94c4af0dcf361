/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds the lines that a job added to a text file, by digests of the earlier lines.
 *
 * Ownership  overlay_lines owns its digests; the caller owns texts
 * Threading  one thread
 */
#include "cli/fail.h"
#include "common/base/json.h"

/* A user's FindDb usually has some thousand records of some hundred bytes. */
#define OVERLAY_TEXT_MAX (512u << 20)

struct overlay_lines {
    uint64_t *digests;
    size_t count, capacity;
};

void overlay_lines_done(struct overlay_lines *lines);
CLI_MUST_CHECK int overlay_lines_add(struct overlay_lines *lines, uint64_t digest,
                                     struct kiln_error *err);
void overlay_lines_sort(struct overlay_lines *lines);
/* Adds the digest of every complete line of |text|, then sorts.  The last line may be incomplete,
 * because MIOpen is still writing it or the job was killed. */
CLI_MUST_CHECK int overlay_lines_add_all(struct overlay_lines *lines, struct bytes text,
                                         struct kiln_error *err);
/* Copies the complete lines that are not among |lines|, and returns their number.  All other lines
 * become blank, so that line numbers do not change. */
size_t overlay_lines_new(const struct overlay_lines *lines, struct bytes text,
                         struct buffer *ret_new);
CLI_MUST_CHECK int overlay_text_read(const char *path, size_t most, struct buffer *ret_text,
                                     struct kiln_error *err);
