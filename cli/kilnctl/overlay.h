/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An overlay is a directory with kiln's data, which an unmodified MIOpen uses.  The parts of an
 * overlay are system/, user/ and cache/.
 *
 * Role       miopen_overlay.c is the command; overlay_fill.c and overlay_kernels.c fill the
 *            directory from kilnd
 * Ownership  struct overlay owns its manifest and trees
 * Threading  main thread; blocks
 */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/overlay_manifest.h"

#include <limits.h>

struct overlay {
    const struct invocation *invocation;
    const char *version;
    /* |dialect| of FindDb: NULL means the recorded dialect.  |format| of PerfDb: NULL means both
     * formats. */
    const char *dialect, *format;
    bool replace;
    char directory[PATH_MAX];
    struct overlay_manifest manifest;
    struct json *files;
    struct json *remarks;
    bool has_find, has_perf; /* system/ has FindDb, or PerfDb, of the current device */
    bool has_system;
    char installed[PATH_MAX];
    bool is_installed;
    bool needs_installed; /* the job's MIOpen may be a version that fails without its models */
};

/* Writes the FindDb and PerfDb of device |id|: the host's into system/, the user's into user/. */
CLI_MUST_CHECK int overlay_fill(struct overlay *overlay, const char *id, struct kiln_error *err);
/* Writes the imported kernels of device |id| into cache/, and links installed packages into
 * system/. */
CLI_MUST_CHECK int overlay_fill_kernels(struct overlay *overlay, const char *id,
                                        struct kiln_error *err);

/* Links MIOpen's own files into system/, except files that kiln has written.  With an overlay,
 * MIOpen only looks in system/.  If the models of MIOpen are missing, system/ is not used, because
 * MIOpen would fail without its models. */
CLI_MUST_CHECK int overlay_link_installed(struct overlay *overlay, struct kiln_error *err);

/* Records in the manifest that file |name| was written, and reports it with |count| and |noun|. */
CLI_MUST_CHECK int overlay_wrote(struct overlay *overlay, const char *name, uint64_t count,
                                 const char *noun, struct kiln_error *err);
void overlay_remark(struct overlay *overlay, const char *fmt, ...) CLI_PRINTF(2, 3);
