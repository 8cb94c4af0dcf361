/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Other processes.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <sys/types.h>

/* Returns false if the process has ended, or is about to end, or if |pid| is 0 (unknown). */
bool process_lives(pid_t pid);
