/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The environment variables that compilers read.
 *
 * Threading  any thread, while no thread changes the environment
 */
#include "common/base/digest.h"
#include "libclient/rtc/api.h"

#include <stdbool.h>

/* Who reads a variable: bits of a mask. */
enum variable_reader {
    READER_NVRTC = 1,
    READER_CLANG = 2,   /* hiprtc and comgr, which compile with clang's libraries */
    READER_PROGRAM = 4, /* a compiler that kiln-cc starts: clang or ptxas, and the dynamic linker */
};

enum variable_reader variables_reader(enum rtc_kind kind);
/* Returns whether a variable is set that changes the output or its messages. */
bool variables_are_set(enum variable_reader reader);
/* Returns a digest of these variables.  A variable that is not set counts as different from an
 * empty one. */
struct digest variables_digest(enum variable_reader reader);
/* Returns whether a variable is set that adds options, or lets the compiler do more than return its
 * outputs, such as write another file. */
bool variables_add_options(enum variable_reader reader);
