/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The packages of this host, as the rest of the engine sees them.
 *
 * Role       rescans the package directories every few seconds, and reports once per boot which
 *            GPUs have no package
 * Ownership  the engine owns the struct; texts that it returns are borrowed
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

struct package_service;

KILN_MUST_CHECK enum kiln_code packages_open(struct engine *e, const struct engine_options *options,
                                             struct kiln_err *err);
void packages_close(struct engine *e);
/* Makes the next packages_tick rescan the directories, because trusted keys may have changed. */
void packages_set_limits(struct engine *e, const struct engine_options *options);
/* Reports GPUs without a package, unless they were already reported since the last boot. */
void packages_start(struct engine *e);
/* Must run about once a second. */
void packages_tick(struct engine *e);

/* Returns the directory for files that are being received or sent, or "" if there is none. */
const char *packages_staging(const struct engine *e);
/* Returns the directory in which the operating system's kernel describes the GPUs. */
const char *packages_kfd_directory(const struct engine *e);
