/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The packages of this host, as the rest of the engine sees them.
 *
 * Role       owns everything that the engine needs for packages, except the package set.  Every few
 *            seconds, rescans the package directories and reports packages that appeared or
 *            disappeared. Reports once per boot which GPUs have no package
 * Ownership  the engine owns the struct; texts that it returns are borrowed
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

struct package_service;

/* Call it before the first request is answered, so that installed packages are used from the
 * start. */
KILN_MUST_CHECK enum kiln_code packages_open(struct engine *e, const struct engine_options *options,
                                             struct kiln_err *err);
void packages_close(struct engine *e);
/* Applies the limits of |options| to later uploads. The next packages_tick rescans the directories,
 * because trusted keys may have changed. */
void packages_set_limits(struct engine *e, const struct engine_options *options);
/* Reports GPUs for which there is no package, unless they were already reported since the last
 * boot. */
void packages_start(struct engine *e);
/* Call it about once a second. */
void packages_tick(struct engine *e);

/* Directory of files that are being received or sent; "": there is none. */
const char *packages_staging(const struct engine *e);
/* The directory in which the operating system's kernel describes the GPUs. */
const char *packages_kfd_directory(const struct engine *e);
