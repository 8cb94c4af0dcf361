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

/* Fills in |code|, |name|, |identity| and |trouble|.  Returns false if the library has not loaded
 * its compiler yet; the caller then calls this function again later. */
bool identity_find(struct rtc_library *library);
/* Returns whether |library| has compiled with the files from which its identity was made.  NVRTC
 * loads its builtins library only at the first compile, and an upgrade may have replaced this
 * library by then. */
bool identity_holds(const struct rtc_library *library);
