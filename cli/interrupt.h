/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Prints a message if a long command is interrupted.
 *
 * Ownership  |kept| is borrowed until the program ends
 * Threading  the main thread
 */

/* At SIGINT and SIGTERM, prints "PROGRAM: interrupted: KEPT" on standard error; the signal then
 * ends the process.  |kept| says which results are kept and how to continue. */
void interrupt_says(const char *program, const char *kept);
