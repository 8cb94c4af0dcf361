/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes the key of a compile from everything that determines its result, except the files that the
 * compile reads.
 *
 * Threading  any thread, but only one thread at a time for a program
 */
#include "libclient/rtc/program.h"

/* Returns whether the result depends on the current device, because no option names an
 * architecture. */
bool key_needs_device(const struct rtc_program *program);
/* Returns why a compile cannot be looked up, or NULL if it can.  A reason is, for example, an
 * option that is unknown or has side effects. */
const char *key_obstacle(const struct rtc_program *program);
/* Returns a SHA-256 over the library's identity, the options, the architecture, the source, the
 * headers given in memory, the name expressions, and the environment variables that the library
 * reads.  With |with_name|, also over the program's name and the current directory. */
struct digest key_of_program(const struct rtc_program *program, bool with_name);
/* Returns whether |result|, which rtc_result_collect wrote, may depend on the program's name. */
bool key_name_matters(const struct rtc_program *program, struct bytes result);
/* Returns the program's name, or the name that the library uses if the caller gave none. */
const char *key_name(const struct rtc_program *program);
/* Returns the architecture, to show it to users, or "" if it is not known. */
const char *key_target(const struct rtc_program *program);
