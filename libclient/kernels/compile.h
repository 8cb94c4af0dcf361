/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Stores results of this process's own compilers in kilnd, and gets stored results.  Also lets
 * kilnd compile programs with the NVRTC or hiprtc that kilnd has.
 *
 * Role       asks for the result that is stored under the caller's key; if there is none, only one
 *            process of a user at a time gets the right to compile
 * Ownership  the caller owns the result: a kernel with the bytes that compile_end stored
 * Threading  the caller's thread
 */
#include "common/protocol/program_inputs.h"
#include "libclient/client.h"
#include "libclient/failure.h"
#include "libclient/kernels/kernel.h"

struct compile_question {
    const struct digest *key;
    /* The key of a result that kilnd compiled itself (program_key), or NULL.  If kilnd has a result
     * under this key, compile_begin may return this result and set |is_program|. */
    const struct digest *program;
    uint32_t wait_ms; /* how long to wait for the compile of another process; at most a minute */
    uint64_t deadline_ns;
};

struct compile_found {
    struct kiln_kernel *result;
    bool is_program; /* found under the key |program| */
};

/* Returns KILN_OK with the result in |ret_found|.  Returns KILN_NOT_FOUND if there is no result;
 * this client then has the right to compile, and must call compile_end.  Returns KILN_BUSY if
 * another process was still compiling after |wait_ms|. */
KILN_MUST_CHECK enum kiln_code compile_begin(struct kiln_client *client,
                                             const struct compile_question *question,
                                             struct compile_found *ret_found,
                                             struct failure *failure);

/* Lets kilnd compile a program with kilnd's NVRTC or hiprtc, or gets the result of an earlier such
 * compile.  The results are for all users.  Returns KILN_UNAVAILABLE if kilnd does not have this
 * library. */
KILN_MUST_CHECK enum kiln_code compile_program(struct kiln_client *client,
                                               const struct program_inputs *inputs,
                                               uint64_t deadline_ns,
                                               struct kiln_kernel **ret_result,
                                               struct failure *failure);

struct compile_result {
    const struct digest *key;
    enum compile_part part;
    int file; /* a memory file with the bytes; -1 if the compile failed */
    uint64_t compile_ns;
    const char *target; /* shown to users, like the next three texts; must be printable */
    const char *toolchain;
    const char *program;
    const char *options;
};

/* Stores the result in kilnd, which copies the file.  After a failed compilation, only gives up the
 * right to compile. */
KILN_MUST_CHECK enum kiln_code compile_end(struct kiln_client *client,
                                           const struct compile_result *result,
                                           uint64_t deadline_ns, struct failure *failure);
