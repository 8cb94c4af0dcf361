/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files that a compile reads, and those that it looks for in vain.
 *
 * Role       this library's open, fopen, stat and the like note what a run-time compiler does on
 *            the thread that compiles; a manifest lists it, and says later whether the same compile
 *            would read the same bytes. The idea is ccache's direct mode
 * Ownership  a manifest owns its bytes
 * Threading  a recording belongs to its thread
 */
#include "common/base/bytes.h"
#include "libclient/rtc/api.h"

/* Begins to note what |library| opens on this thread. */
void files_begin(const struct rtc_library *library);
/* Ends it and appends a manifest to |to|. False, with *ret_reason, if not all of it could be noted:
 * a file was written, or changed during the compile. */
bool files_end(struct buffer *to, const char **ret_reason);

/* Whether the files are the same now. A manifest comes from outside this process, so |manifest| is
 * checked as it is read. */
bool files_are_same(struct bytes manifest);
/* Adds to |digest| what determines a compile: paths and contents, not times. False: |manifest| is
 * damaged. */
struct sha256;
bool files_digest(struct bytes manifest, struct sha256 *digest);
