/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What Ctrl-C says: a long command that is interrupted tells what it has done is kept, and how to
 * go on.
 *
 * Ownership  |kept| is borrowed until the program ends
 * Threading  the main thread
 */

/* At SIGINT and SIGTERM, prints "PROGRAM: interrupted: KEPT" on standard error and ends by the
 * signal.  A later call replaces the text. */
void interrupt_says(const char *program, const char *kept);
