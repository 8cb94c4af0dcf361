/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Notes of everything that a compiler's processes read, for kiln-cc.
 *
 * kiln-cc starts a compiler with libkiln-rtc and a memory file.  In each process of the compiler,
 * the functions of hooks.c append notes to this file.  kiln-cc reads the notes when the compiler
 * has ended.  A library that a process loads with dlopen is noted when the process ends, unless it
 * ends with _exit.  If the process closes a library again, a NOTE_LOST is written.
 *
 * Role       writes notes: a kind (enum file_use or enum note_kind), and a text that ends with NUL,
 *            mostly a path
 * Ownership  the processes inherit the file's descriptor
 * Threading  any thread of any process of the compiler
 */
#include <stdbool.h>
#include <sys/stat.h>

/* "DESCRIPTOR:DEVICE:INODE" of the memory file, which must be open for appending */
#define NOTES_VARIABLE "KILN_RTC_NOTES"

enum note_kind {
    NOTE_BEGIN = 'b',   /* the process id: the first note of each process, and of each program */
    NOTE_PROCESS = 'p', /* a process was started, and must write a NOTE_BEGIN */
    NOTE_WRITE = 'w',   /* a file was opened for writing or renamed, or a directory was made */
    NOTE_FILE = 'f',    /* "DEVICE:INODE" of a file that was opened for writing */
    NOTE_CHDIR = 'c',
    NOTE_LOST = 'x', /* a file or library was opened whose path is not known */
};

/* Returns whether this process belongs to a compiler that kiln-cc has started. */
bool notes_are_wanted(void);
/* Appends a note.  Does not change errno. */
void notes_add(char kind, const char *text);
enum { NOTES_FILE_SIZE = 48 };
/* Writes the text of a NOTE_FILE into |text|, and returns |text|. */
const char *notes_file(const struct stat *seen, char text[NOTES_FILE_SIZE]);
