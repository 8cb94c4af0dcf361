/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files of a job's trace, one for each process.  docs/formats/trace.md describes them.
 *
 * Role       creates a private file in the job's directory, and appends lines up to a limit
 * Ownership  a trace_file owns its descriptor until trace_file_close
 * Threading  the caller synchronises access to one trace_file; any number of processes may have
 *            files in one directory
 */
#include "common/base/err.h"
#include "common/base/paths.h"
#include "common/base/trace_text.h"

/* Maximum size of a file, in bytes.  A job that tries ten solvers for each of 2000 problems would
 * write about 5 MB; the first MiB has the kernels that it waits for first. */
#define TRACE_FILE_BYTES_MAX (1u << 20)
#define TRACE_FILE_LINES_MAX 16384u
/* Maximum number of files with the same ending in a job's directory.  Beyond it, a new file
 * replaces the oldest one. */
#define TRACE_FILES_MAX 256u

#define TRACE_JOB_MAX 101
#define TRACE_ENDING ".trace"
#define TRACE_PREFETCH_ENDING ".prefetch"
#define TRACE_PULLED_ENDING ".pulled" /* traces of other hosts, which 'trace pull' wrote */

struct trace_file {
    int fd; /* -1 if the file is not open */
    size_t bytes, lines;
};

/* Makes a job's name into the name of a directory: keeps letters, digits and "._+=-", and replaces
 * other characters by '_'.  Returns false for an empty name. */
bool trace_job_name(const char *given, char ret_name[TRACE_JOB_MAX]);
/* Returns the directory of |job|.  If |job| is NULL, returns the parent directory of all jobs. */
KILN_MUST_CHECK enum kiln_code trace_directory(const char *job, char path[PATH_TEXT_MAX],
                                               struct kiln_err *err);

/* Removes the oldest files of a job's directory with |ending| if there is no space for another one
 * with this ending (TRACE_FILES_MAX). */
void trace_files_make_space(const char *directory, const char *ending);
/* Creates the directory of |job| and a new file in it, with |process| as its second line.  Other
 * users cannot read either of them. */
KILN_MUST_CHECK enum kiln_code trace_file_create(const char *job, const char *ending,
                                                 const struct trace_line *process,
                                                 struct trace_file *ret_file, struct kiln_err *err);
/* Appends all lines with one write.  If the lines would exceed a limit, appends a line that names
 * the limit instead, and closes the file.  If the write fails, closes the file.  Appends nothing if
 * the format cannot express one of the lines. */
void trace_file_add(struct trace_file *file, const struct trace_line *lines, size_t count);
void trace_file_close(struct trace_file *file);
