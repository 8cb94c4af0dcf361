/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compiles that kilnd does with its own NVRTC or hiprtc, whose results all users share.
 *
 * Role       if all inputs of a compile are in memory and kilnd has the same build of the library,
 *            gets the result from kilnd. kilnd compiles unless a user has asked for this result
 *            before
 * Threading  any thread, but only one thread at a time for a program
 */
#include "libclient/rtc/program.h"

/* Returns false if kilnd does not take part; the caller then continues with lookup.h.
 * |ret_saved_ns| is the duration of an earlier compile, or 0 if kilnd compiled it now. */
bool shared_compile(const struct rtc_program *program, struct rtc_result *ret_result,
                    uint64_t *ret_saved_ns);
