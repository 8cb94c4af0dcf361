/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Calls the compilers directly, in this process, as a program without kiln would.
 *
 * Role       the comparison for a compile through the daemon, with the same source and options
 * Ownership  a direct compiler stays loaded until the process ends
 * Threading  one thread; one toolchain for each process, because each brings its own LLVM
 */
#include "tests/bench/cold.h"

struct direct {
    void *dl; /* owned; never closed */
    enum kiln_code (*compile)(struct direct *direct, const struct cold *cold, const char *options,
                              struct kiln_err *err);
    void *context; /* OpenCL's */
    void *device;
};

/* KILN_UNAVAILABLE: the library is absent, or the toolchain is a program ("clang"). The compiler's
 * caches are written to |work|. */
KILN_MUST_CHECK enum kiln_code direct_open(const char *toolchain, const char *work,
                                           struct direct *ret_direct, struct kiln_err *err);
