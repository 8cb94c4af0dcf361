/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The compilers called directly, in this process, as a program without kiln would.
 *
 * Role       the other side of "compile through the daemon"; same source, same options
 * Ownership  a direct compiler stays loaded until the process ends
 * Threading  one thread; one toolchain a process, since each brings an LLVM of its own
 */
#include "tests/bench/cold.h"

struct direct {
    void *dl; /* owned; never closed */
    enum kiln_code (*compile)(struct direct *direct, const struct cold *cold, const char *options,
                              struct kiln_err *err);
    void *context; /* OpenCL's */
    void *device;
};

/* KILN_UNAVAILABLE when its library is not here, or it is none ("clang").  |work| receives its
 * caches. */
KILN_MUST_CHECK enum kiln_code direct_open(const char *toolchain, const char *work,
                                           struct direct *ret_direct, struct kiln_err *err);
