/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Notes the files that a compile reads, and the files that it looks for but does not find.
 *
 * Role       libkiln-rtc's open, fopen, __xstat and similar functions note the files that a
 *            run-time compiler uses on the thread that compiles.  A manifest lists these files.
 *            With the manifest, a later process finds out whether the same compile would read the
 *            same bytes. ccache's direct mode works in the same way
 * Ownership  a manifest owns its bytes
 * Threading  each thread notes the files of its own compile
 */
#include "common/base/bytes.h"
#include "libclient/rtc/api.h"

struct files_outcome {
    /* Why the compile cannot be stored, or NULL.  For example, the compile wrote a file outside of
     * the directories that it made, or a file changed during the compile. */
    const char *reason;
    bool expands_name; /* the result may contain the program's name, because of a macro in a file */
};

/* Begins to note the files of a compile on this thread.  |source| is what |library| compiles. */
void files_begin(const struct rtc_library *library, const char *source);
bool files_are_noted(void);
struct files_outcome files_end(struct buffer *to);
/* Makes |reason|, a string literal, the reason why the compile of this thread cannot be stored. */
void files_refuse(const char *reason);

/* ---- for hooks.c: calls of libc, which may come from a compiler ---- */

/* the first byte of each noted path */
enum file_use {
    FILE_USE_STAT = 's',
    FILE_USE_OPEN = 'o',
    FILE_USE_LIST = 'l',
    FILE_USE_RUN = 'r', /* a program that the compiler runs, or a library that it loads */
};

struct file_call {
    const void *caller; /* the address that the call returns to */
    int directory;      /* |path| is relative to this directory */
    enum file_use use;
    bool writes;
};

/* |path| may be NULL. */
void files_note_call(struct file_call call, const char *path);
/* Notes the open file |file|, to which the compiler may write. */
void files_note_written(int file);
/* Notes that a process is started.  A compiler's process may read files that are not noted. */
void files_note_process(const void *caller);
void files_note_created(const void *caller, const char *directory);
/* Notes that a thread changes the current directory.  Results of compiles that run meanwhile are
 * not stored. */
void files_note_chdir(void);

/* ---- manifests ---- */

/* Returns whether the compile found a file in the directory of the program |name|, such as one for
 * #include "...".  If |name| has no directory, returns true if the compile looked for any other
 * file with a relative path, even for one that does not exist.  Also returns true if |manifest| is
 * damaged. */
bool files_use_directory(struct bytes manifest, const char *name);
/* Appends |manifest| in a form for programs with any name.  Leaves out the entries for the file
 * |name|, its parent directories and the current directory, which NVRTC examines whatever the
 * program contains.  For a file that was not found in the program's directory, appends an entry
 * that requires it to be absent from the directory of any later program.  Returns false if
 * |manifest| is damaged or too large. */
bool files_for_any_name(struct bytes manifest, const char *name, struct buffer *to);

/* Returns whether the files are still as |manifest| describes them, for a compile of the program
 * |name|.  |manifest| comes from outside this process.  Returns false if |manifest| is damaged. */
bool files_are_same(struct bytes manifest, const char *name);
/* Adds the files' paths and contents to |digest|.  Leaves out the times of files, which do not
 * influence a compile.  Adds the time of a listed directory, which changes whenever an entry is
 * added or removed.  Returns false if |manifest| is damaged. */
struct sha256;
bool files_digest(struct bytes manifest, struct sha256 *digest);
