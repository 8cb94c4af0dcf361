/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Random pauses, so that many hosts do not send requests at the same moment.
 *
 * Threading  any thread
 */
#include <stdint.h>

/* Shortens |pause|, in any unit, by a random amount of at most half of it. If a server fails, all
 * hosts notice it at the same time, but should not try it again at the same time. */
uint64_t jitter_shorten(uint64_t pause);
