/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests kernels ahead of time: a background thread requests the kernels of all problems in a
 * file, so that all compilers have work while the first problems run.
 *
 * Role       makes the run faster and has no other effect.  kilnd combines these requests with
 *            those of the run, and answers the run's requests first.  Errors are ignored, because
 *            the run meets the same errors and reports them
 * Ownership  |bench|, with its device and toolchain, and |session| are borrowed until ahead_stop
 * Threading  runs a private thread with a private client; start and stop on one thread
 */
#include "cli/driver/measure.h"
#include "cli/lines.h"
#include "cli/session.h"

struct ahead;

/* Starts to request the kernels.  Returns NULL if there is nothing to request, if out of memory, or
 * if no thread can be started; the run then requests each kernel when it needs it. */
struct ahead *ahead_start(const struct bench *bench, const struct session_options *session,
                          const struct line_file *file);
/* Stops the requests.  Returns at once if all problems were answered.  Otherwise blocks until the
 * next reply arrives or the request times out.  Accepts NULL. */
void ahead_stop(struct ahead *ahead);
