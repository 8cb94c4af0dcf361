/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compiles that kilnd does with its own NVRTC or hiprtc, whose results all users share.
 *
 * Role       if all inputs of a compile are in memory and kilnd has the same build of the library,
 *            makes the key of the result, or lets kilnd compile
 * Threading  any thread, but only one thread at a time for a program
 */
#include "libclient/rtc/program.h"

/* Makes the key under which kilnd stores the result if kilnd compiles the program.  Returns false
 * if this process may not use a result that kilnd compiled. */
bool shared_key(const struct rtc_program *program, struct digest *ret_key);
/* Lets kilnd compile the program.  Returns false if kilnd cannot compile it.  Call this function
 * only after a look-up found no result.  Otherwise kilnd would try again to compile programs that
 * it could not compile before.  |ret_saved_ns| is 0 if kilnd has compiled the program now,
 * otherwise the duration of the earlier compile. */
bool shared_compile(const struct rtc_program *program, struct rtc_result *ret_result,
                    uint64_t *ret_saved_ns);
