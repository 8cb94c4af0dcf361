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

/* Writes the path of the newest suitable clang to |path|.  Returns KILN_UNAVAILABLE if none is
 * installed.  If the search itself fails, for example
 * because memory runs out, returns that error and chooses no clang. */
KILN_MUST_CHECK enum kiln_code clang_find(char path[CLANG_PATH_MAX], struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code clang_version(const char *path, char *text, size_t size,
                                             struct kiln_err *err);
void clang_linker(const char *path, char linker[CLANG_PATH_MAX]);
