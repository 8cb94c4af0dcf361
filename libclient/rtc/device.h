/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The GPU for which hiprtc compiles if no option names an architecture.
 *
 * Role       asks the HIP runtime of this process for the architecture of the current device, as
 *            hiprtc does
 * Threading  any thread; the current device is that of the calling thread
 */
#include <stdbool.h>

enum { DEVICE_ARCHITECTURE_MAX = 64 };

/* Writes the architecture, such as "gfx90a:sramecc+:xnack-".  Returns false if there is no HIP
 * runtime or no device. */
bool device_architecture(char ret_architecture[DEVICE_ARCHITECTURE_MAX]);
