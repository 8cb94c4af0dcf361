/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests kernels ahead of time: a background thread requests every kernel of a file at once, so
 * that all compilers have work while the first problems run.
 *
 * Role       an optimization only.  kilnd coalesces these requests with those of the run and
 *            serves the run's first.  Errors are ignored: the run meets them again and reports them
 * Ownership  |bench|, with its device and toolchain, and |session| are borrowed until ahead_stop
 * Threading  runs a private thread with a private client; start and stop on one thread
 */
#include "cli/driver/measure.h"
#include "cli/lines.h"
#include "cli/session.h"

struct ahead;

/* Returns NULL when there is nothing to request, or when memory or a thread cannot be allocated:
 * the run then proceeds without it. */
struct ahead *ahead_start(const struct bench *bench, const struct session_options *session,
                          const struct line_file *file);
/* Accepts NULL.  Returns at once after a run whose problems were all answered.  Otherwise blocks
 * until the next reply arrives or the request times out. */
void ahead_stop(struct ahead *ahead);
