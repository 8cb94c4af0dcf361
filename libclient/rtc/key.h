/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What determines the result of a compile, apart from the files that it reads.
 *
 * Threading  pure functions
 */
#include "libclient/rtc/program.h"

/* Why the compile cannot be looked up: an option or a source with side effects, or one that we do
 * not know. NULL: it can. */
const char *key_obstacle(const struct rtc_program *program);
/* SHA-256 over the library, options, source, headers given in memory, name expressions, and the
 * variables of the environment that the library reads. |with_name|: also the program's name and
 * the current directory. */
struct digest key_of_program(const struct rtc_program *program, bool with_name);
/* Whether |result|, collected bytes, may depend on the program's name. */
bool key_name_matters(const struct rtc_program *program, struct bytes result);
/* The value of the architecture option, for display; "": none. */
const char *key_target(const struct rtc_program *program);
