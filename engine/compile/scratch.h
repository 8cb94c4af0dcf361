/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The worker's private directory, which contains a job's files while the job runs.
 *
 * Ownership  directories are relative to the process's working directory
 * Threading  one thread
 */
#include "common/base/err.h"
#include "engine/compile/compile_job.h"

/* Name of the directory of a job's headers. No source or header can have this name: their names
 * never begin with '-'. */
#define SCRATCH_HEADERS "-headers"

/* Creates an empty nameless file for the output of a child program. The file is in the private
 * directory, because the sandbox forbids memfd_create. */
KILN_MUST_CHECK enum kiln_code scratch_unnamed(int *ret_fd, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code scratch_put(const char *directory, const char *name,
                                           struct bytes content, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code scratch_fill(const char *directory, const struct compile_job *job,
                                            struct kiln_err *err);
