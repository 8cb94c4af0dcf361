/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Results of compiles that this process does with its own compiler, kept by kilnd.
 *
 * Role       asks for a result by the caller's key; lets only one process of a user compile it
 * Ownership  the caller owns the result, a kernel whose bytes are what compile_end was given
 * Threading  the caller's thread
 */
#include "libclient/client.h"
#include "libclient/failure.h"
#include "libclient/kernels/kernel.h"

/* KILN_OK: *ret_result is the result. KILN_NOT_FOUND: there is none, and this client has the right
 * to compile it: call compile_end. KILN_BUSY: another process still compiled it after |wait_ms|,
 * at most a minute. */
KILN_MUST_CHECK enum kiln_code compile_begin(struct kiln_client *client, const struct digest *key,
                                             uint32_t wait_ms, uint64_t deadline_ns,
                                             struct kiln_kernel **ret_result,
                                             struct failure *failure);

struct compile_result {
    const struct digest *key; /* borrowed, as the others */
    int file;                 /* a memory file with the bytes; -1: the compile failed */
    uint64_t compile_ns;      /* wall-clock time of the compile */
    const char *target;       /* shown to users, as the next three; printable */
    const char *toolchain;
    const char *program;
    const char *options;
};

/* Stores the result, or gives the right to compile back. kilnd seals the file. */
KILN_MUST_CHECK enum kiln_code compile_end(struct kiln_client *client,
                                           const struct compile_result *result,
                                           uint64_t deadline_ns, struct failure *failure);
