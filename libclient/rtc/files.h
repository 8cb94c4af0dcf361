/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Notes the files that a compile reads, and the files that it looks for but does not find.
 *
 * Role       this library's open, fopen, __xstat and similar functions note the files that a
 *            run-time compiler uses on the thread that compiles. A manifest lists these files.
 *            With it, a later process finds out whether the same compile would read the same bytes.
 *            The idea is that of ccache's direct mode
 * Ownership  a manifest owns its bytes
 * Threading  a recording belongs to its thread
 */
#include "common/base/bytes.h"
#include "libclient/rtc/api.h"

/* Begins to note the files that |library| opens on this thread. */
void files_begin(const struct rtc_library *library);
/* Ends the recording and appends a manifest to |to|.  Returns false, with the reason in
 * |ret_reason|, if the compile cannot be stored.  This is the case, for example, if the compile
 * wrote a file outside of the directories that it made, or if a file changed during the compile. */
bool files_end(struct buffer *to, const char **ret_reason);

/* Returns whether the files are still as |manifest| describes them.  |manifest| comes from outside
 * this process, so it is checked; returns false if it is damaged. */
bool files_are_same(struct bytes manifest);
/* Adds the files' paths and contents to |digest|.  Their times do not influence a compile, so they
 * are left out.  A listed directory is an exception: its time stands for its entries.  Returns
 * false if |manifest| is damaged. */
struct sha256;
bool files_digest(struct bytes manifest, struct sha256 *digest);
