/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One compile by a compiler that kiln-cc starts.
 *
 * Role       answers the compile from kilnd, or runs the compiler and stores its output.  The
 *            compiler runs with libkiln-rtc, whose notes (notes.h) say which files it reads
 * Ownership  borrows the command
 * Threading  the only thread of kiln-cc
 */
#include "libclient/rtc/launcher/command.h"

/* |library| is the path of libkiln-rtc.  Returns the exit status for kiln-cc.  Returns -1 with
 * |ret_reason| if kilnd cannot take part; the caller then just starts the compiler. */
int launch_compile(const struct command *command, const char *library, const char **ret_reason);
