/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-compiler process, for an engine without an event loop.
 *
 * Role       starts the process at its first job, through a kiln-launch that is not a child of the
 *            program.  Replaces it after a job with a source that is not kiln's own, after many
 *            jobs, and after a failure
 * Ownership  a program has one struct one_compiler, which is never freed
 * Threading  see engine/embed/embed_compiler.h
 */
#include "engine/embed/embed_compiler.h"

struct embed_compiler *one_compiler(void);
