/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The time at which this process began, for start-up measurements.
 *
 * Threading  one thread
 */

/* Call it first in main.  It executes the same program again once, so that the measured time
 * includes loading the program and its libraries.  Returns the time before that, in seconds of
 * started_now's clock. */
double started_at(char **argv);
double started_now(void);
