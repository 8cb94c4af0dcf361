/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The time at which this process began, for start-up measurements.
 *
 * Threading  one thread
 */

/* Must be called first in main.  Executes the same program once more, so that the measured time
 * includes loading the program and its libraries.  Returns the time at which the first execution
 * began, in seconds of started_now's clock. */
double started_at(char **argv);
double started_now(void);
