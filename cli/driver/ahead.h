/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Asking ahead: every kernel of a file is asked for at once, so that all compilers have work while
 * the first problems run.
 *
 * Role       only makes things sooner: kilnd joins these questions with those of the run and lets
 *            the latter go first.  What fails here fails again in the run, which reports it
 * Ownership  device, toolchain and session are borrowed until ahead_stop
 * Threading  a thread of its own with a client of its own; start and stop on one thread
 */
#include "cli/driver/measure.h"
#include "cli/lines.h"
#include "cli/session.h"

struct ahead;

/* NULL when there is nothing to ask, or no memory or thread to ask with: the run goes without. */
struct ahead *ahead_start(const struct bench *bench, const struct session_options *session,
                          const struct line_file *file);
/* Accepts NULL.  After a run whose problems were all answered there is nothing left to wait for;
 * otherwise this takes until the next answer, or until kilnd's time is up. */
void ahead_stop(struct ahead *ahead);
