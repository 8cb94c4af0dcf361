/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds the newest installed clang that can build AMD code objects: it must support amdgcn and have
 * an lld next to it.  Looks in PATH (clang-NN, clang), /usr/lib/llvm-NN/bin and ROCm's llvm/bin.
 *
 * Threading  one thread at a time; starts clang and waits for it
 */
#include "common/base/err.h"

#include <stddef.h>

#define CLANG_PATH_MAX 256

/* Writes the path of the clang to |path|.  Returns KILN_UNAVAILABLE if there is none; the message
 * lists where the function looked. */
KILN_MUST_CHECK enum kiln_code clang_find(char path[CLANG_PATH_MAX], struct kiln_err *err);
/* Reads the first line of `clang --version`. */
KILN_MUST_CHECK enum kiln_code clang_version(const char *path, char *text, size_t size,
                                             struct kiln_err *err);
/* Finds the lld that the clang at |path| runs. */
void clang_linker(const char *path, char linker[CLANG_PATH_MAX]);
