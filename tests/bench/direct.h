/* SPDX-License-Identifier: MIT */
#pragma once

/* Calls compilers directly in this process, as a program does without kiln.
 *
 * Ownership  a direct compiler stays loaded until the process ends
 * Threading  one thread; a process may open only one toolchain, because each toolchain has its own
 *            LLVM */
#include "tests/bench/cold.h"

struct direct {
    void *dl;
    enum kiln_code (*compile)(struct direct *direct, const struct cold *cold, const char *options,
                              struct kiln_err *err);
    void *context;
    void *device;
};

/* Returns KILN_UNAVAILABLE if the toolchain's library is not installed, or if the toolchain is a
 * program ("clang"). The compiler writes its caches to |work|. */
KILN_MUST_CHECK enum kiln_code direct_open(const char *toolchain, const char *work,
                                           struct direct *ret_direct, struct kiln_err *err);
