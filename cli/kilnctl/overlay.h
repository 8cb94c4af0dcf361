/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A directory that an unmodified MIOpen works in: system/, user/ and cache/ below it.
 *
 * Role       miopen_overlay.c says what goes in, overlay_fill.c and overlay_kernels.c get it from
 *            kilnd
 * Ownership  struct overlay owns its notes and trees
 * Threading  main thread; blocks
 */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/overlay_manifest.h"

#include <limits.h>

struct overlay {
    const struct invocation *invocation; /* borrowed */
    const char *version;                 /* of MIOpen; NULL: not known */
    const char *dialect, *format;        /* NULL: as recorded, sqlite */
    bool replace;
    char directory[PATH_MAX]; /* absolute */
    struct overlay_manifest manifest;
    struct json *files;      /* owned: what was written */
    struct json *remarks;    /* owned */
    bool has_find, has_perf; /* in system/, of the device at hand */
    bool has_system;         /* of any device */
};

/* FindDb and PerfDb of |id|, of the host into system/ and the user's into user/. */
CLI_MUST_CHECK int overlay_fill(struct overlay *overlay, const char *id, struct kiln_error *err);
/* Imported kernels of |id| into cache/, and an installed package of MIOpen's into system/. */
CLI_MUST_CHECK int overlay_fill_kernels(struct overlay *overlay, const char *id,
                                        struct kiln_error *err);

/* Notes and tells that |name| was written, with |count| of |noun|. */
CLI_MUST_CHECK int overlay_wrote(struct overlay *overlay, const char *name, uint64_t count,
                                 const char *noun, struct kiln_error *err);
/* A sentence on standard error, and in --json. */
void overlay_remark(struct overlay *overlay, const char *fmt, ...) CLI_PRINTF(2, 3);
