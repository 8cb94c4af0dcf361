/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Identifies the build of a run-time compiler.
 *
 * Role       makes a digest of the build ids of the library and of the libraries with which it
 *            compiles.  The linker writes a build id into each file that it makes, and files with
 *            the same build id have the same content
 * Threading  the caller synchronises access to |library|
 */
#include "libclient/rtc/api.h"

/* Fills |code|, |name|, |identity| and |trouble| of |library|.  Returns false if this must be
 * repeated later, because the library has not loaded its compiler yet. */
bool identity_find(struct rtc_library *library);
/* Returns whether |library| compiled with the files that its identity was made of.  NVRTC loads its
 * builtins library only at the first compile, and an upgrade may replace that file before. */
bool identity_holds(const struct rtc_library *library);
