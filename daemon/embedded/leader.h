/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The way to another process of this user's that serves.
 *
 * Threading  any thread; may block for as long as is said
 */
#include "common/err.h"

#include <stdint.h>

/* A connected socket of a leader that answers.
 *   KILN_UNAVAILABLE  nobody listens there
 *   KILN_TIMED_OUT    somebody does, and does not answer a hello by |deadline_ns|
 *   others            it cannot be told, or is not ours to use */
KILN_MUST_CHECK enum kiln_code leader_connect(const char *path, uint64_t deadline_ns, int *ret_fd,
                                              struct kiln_err *err);
