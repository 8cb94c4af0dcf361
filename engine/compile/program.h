/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Programs that kiln-compiler runs: clang, and kiln-compiler itself to describe a back end.
 *
 * Role       starts programs and waits for them.  A child ends with the compiler process that
 *            started it, and may use only the CPU time that this process has left
 * Ownership  a child belongs to its caller until program_wait
 * Threading  one thread
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#include <sys/types.h>

struct program {
    const char *const *argv; /* argv[0] is a path; NULL-terminated */
    const char *directory;   /* working directory; NULL: that of the caller */
    const char *environment;
    int out_fd;  /* becomes the standard output; -1: inherited */
    int pass_fd; /* the child gets it as descriptor 3; -1: none */
};

KILN_MUST_CHECK enum kiln_code program_start(const struct program *program, pid_t *ret_pid,
                                             struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code program_wait(pid_t pid, int *ret_status, struct kiln_err *err);
/* Runs the program and appends its standard output. Returns KILN_UNAVAILABLE unless the program
 * exits with 0. */
KILN_MUST_CHECK enum kiln_code program_read(const char *const *argv, const char *environment,
                                            struct buffer *ret_output, struct kiln_err *err);
