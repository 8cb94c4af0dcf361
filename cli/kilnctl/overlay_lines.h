/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which lines of a text a job added: digests of those that were there before.
 *
 * Ownership  overlay_lines owns its digests; texts are the caller's
 * Threading  one thread
 */
#include "cli/fail.h"
#include "common/json.h" /* and with it bytes and buffers */

/* A user's FindDb has some thousand records, of some hundred bytes. */
#define OVERLAY_TEXT_MAX (512u << 20)

struct overlay_lines {
    uint64_t *digests; /* owned; sorted once overlay_lines_add_all is done */
    size_t count, room;
};

void overlay_lines_done(struct overlay_lines *lines); /* accepts a zeroed one */
/* One more, out of order: overlay_lines_sort at the end. */
CLI_MUST_CHECK int overlay_lines_add(struct overlay_lines *lines, uint64_t digest,
                                     struct kiln_error *err);
void overlay_lines_sort(struct overlay_lines *lines);
/* Every line of |text| that has an end: MIOpen, or a job that was killed, may be in the midst of
 * the last one. */
CLI_MUST_CHECK int overlay_lines_add_all(struct overlay_lines *lines, struct bytes text,
                                         struct kiln_error *err);
/* Copies the lines that are not among |lines|, nor without an end; blank ones in the place of
 * others, so that lines keep their numbers.  Returns how many are new. */
size_t overlay_lines_new(const struct overlay_lines *lines, struct bytes text,
                         struct buffer *ret_new);
/* All of a file; KILN_E_FULL beyond |most| bytes. */
CLI_MUST_CHECK int overlay_text_read(const char *path, size_t most, struct buffer *ret_text,
                                     struct kiln_error *err);
