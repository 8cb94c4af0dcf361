/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The key of a compile by NVRTC or hiprtc that kilnd does for all users (the request
 * compile_program). libkiln-rtc computes it to look the result up, and kilnd to store it.
 *
 * Threading  a pure function
 */
#include "common/protocol/program_inputs.h"

/* |source| is the SHA-256 of the source. The caller computes it, because libkiln-rtc needs it for
 * another key, too. */
struct digest program_key(const struct program_inputs *inputs, const struct digest *source);
