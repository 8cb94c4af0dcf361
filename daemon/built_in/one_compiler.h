/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-compiler process, for an engine without an event loop.
 *
 * Role       starts it when it is first needed, by a kiln-launch that is no child of the program;
 *            gives it one job at a time, and replaces it after a job whose source came from
 *            outside, after many jobs, and when it has failed
 * Ownership  one for the process, never freed
 * Threading  as engine/embed/embed_compiler.h says
 */
#include "engine/embed/embed_compiler.h"

struct embed_compiler *one_compiler(void);
