/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Notes the files that a compile reads, and the files that it looks for but does not find.
 *
 * Role       libkiln-rtc's open, fopen, __xstat and similar functions note the files that a
 *            run-time compiler uses on the thread that compiles, and lists them in a manifest
 * Threading  each thread notes the files of its own compile
 */
#include "common/base/bytes.h"
#include "libclient/rtc/api.h"
#include "libclient/rtc/manifest.h"

struct files_outcome {
    /* Why the compile cannot be stored, or NULL.  For example, the compile wrote a file outside of
     * the directories that it made, or a file changed during the compile. */
    const char *reason;
    struct buffer names;    /* pointers to the words (names.h) of the files that the compile read */
    bool has_unknown_names; /* |names| lacks some of the files */
};

/* Begins to note the files of a compile by |library| on this thread. */
void files_begin(const struct rtc_library *library);
bool files_are_noted(void);
/* Appends the manifest to |to|.  The caller frees |names| of the result. */
struct files_outcome files_end(struct buffer *to);
/* Makes |reason|, a string literal, the reason why the compile of this thread cannot be stored. */
void files_refuse(const char *reason);

/* ---- for hooks.c: calls of libc, which may come from a compiler ---- */

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
