/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The key of a program that kilnd compiles with NVRTC or hiprtc once for all users (the request
 * compile_program). libkiln-rtc computes the key to look the result up. kilnd computes it to store
 * the result.
 *
 * Threading  a pure function
 */
#include "common/protocol/program_inputs.h"

/* Returns the key of a program. |source| is the SHA-256 of its source, which the caller computes,
 * because libkiln-rtc needs it for another key, too. */
struct digest program_key(const struct program_inputs *inputs, const struct digest *source);
