/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Notes the files that a compile reads, and the files that it looks for but does not find.
 *
 * Role       this library's open, fopen, __xstat and similar functions note the files that a
 *            run-time compiler uses on the thread that compiles. A manifest lists these files. It
 *            tells a later process whether the same compile would read the same bytes there. The
 *            idea is that of ccache's direct mode
 * Ownership  a manifest owns its bytes
 * Threading  a recording belongs to its thread
 */
#include "common/base/bytes.h"
#include "libclient/rtc/api.h"

/* Begins to note the files that |library| opens on this thread. */
void files_begin(const struct rtc_library *library);
/* Ends the recording and appends a manifest to |to|.  Returns false, with the reason in
 * |ret_reason|, if the compile cannot be stored.  For example, it wrote a file, or a file changed
 * meanwhile. */
bool files_end(struct buffer *to, const char **ret_reason);

/* Returns whether the files are still as |manifest| describes them.  Checks |manifest|, because it
 * comes from outside this process; returns false if it is damaged. */
bool files_are_same(struct bytes manifest);
/* Adds the paths and contents to |digest|, but not the times, which do not influence a compile.
 * Returns false if |manifest| is damaged. */
struct sha256;
bool files_digest(struct bytes manifest, struct sha256 *digest);
