/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A background thread that requests the kernels of all problems in a file, so that all compilers
 * have work while the first problems run.
 *
 * Role       only makes the run faster. kilnd combines these requests with the run's requests,
 *            which have priority.  Errors are ignored, because the run meets the same errors and
 *            reports them
 * Ownership  |bench|, with its device and toolchain, and |session| are borrowed until ahead_stop
 * Threading  runs a private thread with a private client; start and stop on one thread
 */
#include "cli/driver/measure.h"
#include "cli/lines.h"
#include "cli/session.h"

struct ahead;

/* Returns NULL if there is nothing to request, or if no thread can be started.  The run then
 * requests each kernel when it needs the kernel. */
struct ahead *ahead_start(const struct bench *bench, const struct session_options *session,
                          const struct line_file *file);
/* Stops the thread and frees |ahead|.  If kilnd has not answered all problems yet, first blocks
 * until the next answer arrives or the current request times out.  Accepts NULL. */
void ahead_stop(struct ahead *ahead);
