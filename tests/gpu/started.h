/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * When this process began: what a start-up measurement counts from.
 *
 * Threading  one thread
 */

/* The first thing in main.  Replaces the process by the same program once, so that loading the
 * program and its libraries is after the beginning.  Returns the beginning, in seconds of
 * started_now's clock. */
double started_at(char **argv);
double started_now(void);
