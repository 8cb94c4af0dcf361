/* SPDX-License-Identifier: MIT */
#pragma once

/* Kernels that are not compiled yet. All have the same source. An option gives a macro a different
 * value for each kernel (cold_options).
 *
 * Threading  plain values */
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

/* Finds a toolchain ("opencl", "hiprtc" or "clang") and its target. Returns KILN_UNAVAILABLE if
 * kilnd has no such toolchain. */
KILN_MUST_CHECK enum kiln_code cold_find(struct kiln_client *client, const char *toolchain,
                                         struct cold *ret_cold, struct kiln_err *err);
/* Finds the toolchain that compiles fastest among those that kilnd has. */
KILN_MUST_CHECK enum kiln_code cold_find_any(struct kiln_client *client, struct cold *ret_cold,
                                             struct kiln_err *err);
/* Writes the -D options of kernel |id|. In one work directory, use each id once: kilnd stores the
 * compiled kernel there. */
void cold_options(uint64_t id, char options[COLD_OPTIONS_MAX]);
struct kiln_kernel_source cold_request(const struct cold *cold, const char *options);
KILN_MUST_CHECK enum kiln_code cold_fetch(struct kiln_client *client, const struct cold *cold,
                                          uint64_t first_id, size_t count, struct kiln_err *err);

KILN_MUST_CHECK enum kiln_code cold_connect(const char *socket, struct kiln_client **ret_client,
                                            struct kiln_err *err);
/* Reads a counter of kilnd's statistics, such as "compiles" or "hits.disk". */
KILN_MUST_CHECK enum kiln_code cold_counter(struct kiln_client *client, const char *name,
                                            uint64_t *ret_value, struct kiln_err *err);
