/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which build of a run-time compiler a library is.
 *
 * Role       makes a digest of the build ids (the linker's notes) of the library and of what it
 *            compiles with. Two files with the same build id were made by the same link
 * Threading  the caller synchronises access to |library|
 */
#include "libclient/rtc/api.h"

/* Fills |name|, |identity| and |trouble| of a library that is mapped from the file |path|. */
void identity_find(struct rtc_library *library, const char *path);
/* Whether the files with which |library| has compiled are those of its identity. NVRTC loads its
 * builtins at the first compile, and an upgrade may have replaced the file meanwhile. */
bool identity_holds(const struct rtc_library *library);
