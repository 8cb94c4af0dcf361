/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The report of kilnctl run --explain: what libkiln-rtc and kiln.torch did in the processes of a
 * run.
 *
 * Role       reads the lines that these processes have appended to a file, and prints the sums to
 *            standard error, because standard output belongs to the program
 * Threading  main thread
 */
#include <stdbool.h>

/* |with_torch| adds what kiln.torch did. */
void run_report_print(int fd, bool with_torch, bool json);
