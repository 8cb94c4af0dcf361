/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The list of the files on which a compile depends.
 *
 * Role       a manifest describes the state of each file that a compile read, listed, or looked for
 *            in vain.  With it, a later process finds out whether the same compile would read the
 *            same bytes. ccache's direct mode works in the same way
 * Ownership  a manifest owns its bytes
 * Threading  plain values
 */
#include "common/base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* How a compiler used a file. */
enum file_use {
    FILE_USE_STAT = 's',
    FILE_USE_OPEN = 'o',
    FILE_USE_LIST = 'l',
    FILE_USE_RUN = 'r', /* a program that the compiler runs, or a library that it loads */
};

/* ---- writing ---- */

struct manifest_writer {
    struct buffer *to;
    uint64_t began_ns;    /* start of the compile (file_clock_ns) */
    struct buffer opened; /* struct opened (manifest.c) of each file that was read */
    struct buffer names;  /* the words of these files: pointers to struct names_text (contents.h) */
    bool has_unknown_names; /* |names| lacks some of the files */
};

/* Begins a manifest at the end of |to|. */
void manifest_begin(struct manifest_writer *writer, struct buffer *to, uint64_t began_ns);
/* Appends the current state of the file at |path|, whose bytes end with NUL.  The files that were
 * read come before those that were only looked for.  Returns NULL, or why the compile cannot be
 * stored. */
const char *manifest_put(struct manifest_writer *writer, enum file_use use, struct bytes path);
/* The caller frees |writer->names|. */
void manifest_end(struct manifest_writer *writer);

/* ---- reading ---- */

/* Returns whether the compile found a file in the directory of the program |name|, such as one for
 * #include "...".  If |name| has no directory, returns true if the compile looked for any other
 * file with a relative path, even for one that does not exist.  Also returns true if |manifest| is
 * damaged. */
bool manifest_uses_directory(struct bytes manifest, const char *name);
/* Appends |manifest| in a form for programs with any name.  Leaves out the entries for the file
 * |name|, its parent directories and the current directory, which NVRTC examines whatever the
 * program contains.  For a file that was not found in the program's directory, appends an entry
 * that requires it to be absent from the directory of any later program.  Returns false if
 * |manifest| is damaged or too large. */
bool manifest_for_any_name(struct bytes manifest, const char *name, struct buffer *to);

/* Returns whether the files are still as |manifest| describes them, for a compile of the program
 * |name|.  |manifest| comes from outside this process.  Returns false if |manifest| is damaged. */
bool manifest_is_current(struct bytes manifest, const char *name);
struct sha256;
/* Adds the files' paths and contents to |digest|.  Leaves out the times of files, which do not
 * influence a compile.  Returns false if |manifest| is damaged. */
bool manifest_digest(struct bytes manifest, struct sha256 *digest);
