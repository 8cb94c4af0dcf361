/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The worker's private directory: a job's files while it runs, gone afterwards.
 *
 * Role       source and headers for compilers that want files; what compilers leave behind
 * Ownership  directories are relative to the working directory of the process
 * Threading  one thread
 */
#include "common/err.h"
#include "engine/compile/compile_job.h"

/* Where headers are, below the job's directory.  No program's name begins with '-'. */
#define SCRATCH_HEADERS "-headers"

/* An empty file without a name, for what a program that is started says: it is gone with its last
 * descriptor.  In the private directory, as the sandbox lets nobody make memory files. */
KILN_MUST_CHECK enum kiln_code scratch_unnamed(int *ret_fd, struct kiln_err *err);
/* Makes |directory| and puts the job's source into it, and the headers into its SCRATCH_HEADERS,
 * all under their own names. */
KILN_MUST_CHECK enum kiln_code scratch_fill(const char *directory, const struct compile_job *job,
                                            struct kiln_err *err);
