/* SPDX-License-Identifier: MIT */
#pragma once

/* Prints the report of kilnctl run --explain: what libkiln-rtc and kiln.torch did in the processes
 * of the program.
 *
 * Role       reads the lines that these processes have appended to a file, and prints the sums to
 *            standard error, because standard output belongs to the program
 * Threading  main thread */
#include <stdbool.h>

/* With |with_torch|, also reports on kiln.torch.  If the file cannot be read, says that there is no
 * report.  Closes |fd|. */
void run_report_print(int fd, bool with_torch, bool json);
