/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The worker's private directory, which holds a job's files while it runs.
 *
 * Role       holds source and headers for compilers that read files, and what compilers leave
 *            behind
 *
 * Ownership  directories are relative to the process's working directory
 * Threading  one thread
 */
#include "common/base/err.h"
#include "engine/compile/compile_job.h"

/* Directory of the headers, in the job's directory.  No program's name begins with '-'. */
#define SCRATCH_HEADERS "-headers"

/* An unnamed empty file for the output of a child program, which vanishes with its last
 * descriptor.  It is in the private directory, because the sandbox forbids memfd_create. */
KILN_MUST_CHECK enum kiln_code scratch_unnamed(int *ret_fd, struct kiln_err *err);
/* Writes a file of the compiler back end into |directory|, which exists. */
KILN_MUST_CHECK enum kiln_code scratch_put(const char *directory, const char *name,
                                           struct bytes content, struct kiln_err *err);
/* Creates |directory|, and writes the job's source into it and the headers into its
 * SCRATCH_HEADERS, under their own names. */
KILN_MUST_CHECK enum kiln_code scratch_fill(const char *directory, const struct compile_job *job,
                                            struct kiln_err *err);
