/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes the key of a compile from everything that determines its result, except the files that the
 * compile reads.
 *
 * Threading  any thread, but only one thread at a time for a program
 */
#include "libclient/rtc/program.h"

/* Returns whether the result depends on the current device: for hiprtc, if no option names an
 * architecture. */
bool key_needs_device(const struct rtc_program *program);
/* Returns whether, since the first call, this process has changed an environment variable that the
 * compilers read. comgr reads some variables only once, so it may still use an old value.  Called
 * before each compile by hiprtc or comgr. */
bool key_environment_has_changed(void);
/* Returns why a compile cannot be looked up, or NULL.  A reason is, for example, an option that is
 * unknown or has side effects. */
const char *key_obstacle(const struct rtc_program *program);
/* Returns whether |option| affects only the outputs.  For hiprtc and comgr, the options are
 * clang's. */
bool key_knows_option(enum rtc_kind kind, const char *option);
/* Returns whether the argument after |option| is its value. */
bool key_takes_value(enum rtc_kind kind, const char *option);
/* Returns whether |value| is a known value of |option|.  Only the values of -mllvm are checked,
 * because they are options of LLVM. */
bool key_knows_value(const char *option, const char *value);
/* Returns a bit for each kind of option that the library uses for later programs of the process,
 * too: NVRTC 13.0 keeps --restrict and --optimization-info. */
unsigned key_kept_options(enum rtc_kind kind, int count, const char *const *options);
enum key_name_part {
    KEY_NO_NAME,
    KEY_LAST_PART, /* text after the last slash, from which NVRTC makes names of static variables */
    KEY_WHOLE_NAME,
};

/* Returns a SHA-256 over the library's identity, the options, the architecture, the source, the
 * headers given in memory, the name expressions, the environment variables that the library reads,
 * and |part| of the program's name.  With the whole name, the SHA-256 also covers the current
 * directory. */
struct digest key_of_program(const struct rtc_program *program, enum key_name_part part);
/* Returns whether the result may depend on the program's name without containing it, as for
 * "sizeof(__FILE__)".  |headers| has pointers to the words (names.h) of the files that the compile
 * read.  Needs time, so the caller calls this function only after a compile. */
bool key_expands_name(const struct rtc_program *program, struct bytes headers);
/* Returns the part of the program's name on which the result depends. |result| must be the bytes
 * that were collected from the real library. */
enum key_name_part key_name_part_of(const struct rtc_program *program, struct bytes result);
/* Returns the program's name, or the name that the library uses if the caller gave none. */
const char *key_name(const struct rtc_program *program);
/* Returns the program's name if only the library writes it into the log.  In a stored log, the name
 * of another program may then replace it.  Otherwise returns NULL. */
const char *key_name_in_log(const struct rtc_program *program);
/* Returns whether an option, such as -I, names the program's directory. */
bool key_options_have_directory(const struct rtc_program *program);
/* Returns the architecture to show to users, or "" if it is not known. */
const char *key_target(const struct rtc_program *program);
