/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds the lines that a job has added to a text file, by comparing digests with those of the lines
 * before the job.
 *
 * Ownership  overlay_lines owns its digests; the caller owns texts
 * Threading  one thread */
#include "cli/fail.h"
#include "common/base/json.h"

/* Maximum size of a text file. A user's FindDb usually has a few thousand records of a few hundred
 * bytes. */
#define OVERLAY_TEXT_MAX (512u << 20)

struct overlay_lines {
    uint64_t *digests;
    size_t count, capacity;
};

void overlay_lines_done(struct overlay_lines *lines);
CLI_MUST_CHECK int overlay_lines_add(struct overlay_lines *lines, uint64_t digest,
                                     struct kiln_error *err);
void overlay_lines_sort(struct overlay_lines *lines);
/* Adds the digests of all complete lines of |text|, and sorts them. The last line may be
 * incomplete, because MIOpen is still writing or was killed. */
CLI_MUST_CHECK int overlay_lines_add_all(struct overlay_lines *lines, struct bytes text,
                                         struct kiln_error *err);
/* Copies |text| to |ret_new|, but empties the lines whose digests are in |lines|, so that line
 * numbers stay the same. Leaves out an incomplete last line. Returns the number of lines that are
 * not empty. */
size_t overlay_lines_new(const struct overlay_lines *lines, struct bytes text,
                         struct buffer *ret_new);
CLI_MUST_CHECK int overlay_text_read(const char *path, size_t most, struct buffer *ret_text,
                                     struct kiln_error *err);
