/* SPDX-License-Identifier: MIT */
#pragma once

/* The time at which this process started, to measure start-up.
 *
 * Threading  one thread */

/* Call this first in main. Executes the program again, so that the measured time includes loading
 * the program and its libraries. Returns when the first execution started, in seconds on the clock
 * of started_now. */
double started_at(char **argv);
double started_now(void);
