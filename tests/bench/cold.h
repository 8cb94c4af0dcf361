/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Kernels that are not compiled yet.  All kernels have the same source, which a macro makes
 * distinct.
 *
 * Threading  plain values
 */
#include "tests/bench/bench.h"

#include <kiln/kernel.h>

#define COLD_TARGET_MAX 192
#define COLD_OPTIONS_MAX 64

struct cold {
    const char *toolchain;
    char target[COLD_TARGET_MAX];
    const char *program;
    const char *source;
};

/* Returns KILN_UNAVAILABLE if the daemon has no toolchain of that name ("opencl", "hiprtc",
 * "clang"). */
KILN_MUST_CHECK enum kiln_code cold_find(struct kiln_client *client, const char *toolchain,
                                         struct cold *ret_cold, struct kiln_err *err);
/* Prefers the toolchain that compiles fastest. */
KILN_MUST_CHECK enum kiln_code cold_find_any(struct kiln_client *client, struct cold *ret_cold,
                                             struct kiln_err *err);
/* Writes the -D options of kernel number |id|.  Each work directory has its own numbers. */
void cold_options(uint64_t id, char options[COLD_OPTIONS_MAX]);
struct kiln_kernel_source cold_request(const struct cold *cold, const char *options);
/* None of the |count| kernels may fail. */
KILN_MUST_CHECK enum kiln_code cold_fetch(struct kiln_client *client, const struct cold *cold,
                                          uint64_t first_id, size_t count, struct kiln_err *err);

KILN_MUST_CHECK enum kiln_code cold_connect(const char *socket, struct kiln_client **ret_client,
                                            struct kiln_err *err);
/* |name| is a counter of 'stats', such as "compiles" or "hits.disk". */
KILN_MUST_CHECK enum kiln_code cold_counter(struct kiln_client *client, const char *name,
                                            uint64_t *ret_value, struct kiln_err *err);
