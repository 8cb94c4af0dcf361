/* SPDX-License-Identifier: MIT */
#pragma once

/* The time at which this process started, to measure start-up.
 *
 * Threading  one thread */

/* Returns the time at which the process started, in seconds on the clock of started_now. Executes
 * the program a second time, so that the time from this start includes loading the program and its
 * libraries. Call this first in main. */
double started_at(char **argv);
double started_now(void);
