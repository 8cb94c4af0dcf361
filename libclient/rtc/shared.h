/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compiles that kilnd does with its own NVRTC or hiprtc, whose results all users share.
 *
 * Role       if all inputs of a compile are in memory and kilnd has the same build of the library,
 *            gets the result from kilnd, or lets kilnd compile
 * Threading  any thread, but only one thread at a time for a program
 */
#include "libclient/rtc/program.h"

/* Finds the result of an earlier compile by kilnd.  Returns false if there is none; the caller then
 * looks for a result of the user's own processes (lookup.h).  |ret_saved_ns| is the duration of the
 * earlier compile. */
bool shared_find(const struct rtc_program *program, struct rtc_result *ret_result,
                 uint64_t *ret_saved_ns);
/* Returns false if kilnd cannot compile the program.  Call this function only if neither kind of
 * result is stored: kilnd would try again what it could not compile before. */
bool shared_compile(const struct rtc_program *program, struct rtc_result *ret_result);
