/* SPDX-License-Identifier: MIT */
#pragma once

/* An overlay is a directory with data of kiln in MIOpen's formats, so that an unmodified MIOpen
 * uses it.  It contains the directories system/, user/ and cache/.
 *
 * Role       miopen_overlay.c is the command; overlay_fill.c and overlay_kernels.c fill the
 *            directory from kilnd
 * Ownership  struct overlay owns its manifest and trees
 * Threading  main thread; blocks */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/overlay_manifest.h"

#include <limits.h>

struct overlay {
    const struct invocation *invocation;
    const char *version;
    /* |dialect| NULL means that FindDb is written as recorded. |format| NULL means that PerfDb is
     * written in both formats. */
    const char *dialect, *format;
    bool replace;
    char directory[PATH_MAX];
    struct overlay_manifest manifest;
    struct json *files;
    struct json *remarks;
    /* whether system/ already has a FindDb, or a PerfDb, of the device whose files are being
     * written */
    bool has_find, has_perf;
    bool has_system;
    char installed[PATH_MAX];
    bool is_installed;
    bool needs_installed; /* the job may have a MIOpen that fails if it does not find its models */
};

/* Writes FindDb and PerfDb of device |id|: the host's records into system/, and the user's into
 * user/. If MIOpen's version is not known, writes the user's records into system/, too. */
CLI_MUST_CHECK int overlay_fill(struct overlay *overlay, const char *id, struct kiln_error *err);
/* Writes the imported kernels of device |id| into cache/, and links the installed packages into
 * system/. */
CLI_MUST_CHECK int overlay_fill_kernels(struct overlay *overlay, const char *id,
                                        struct kiln_error *err);

/* Links the files of MIOpen's own directory into system/, because MIOpen does not look in its own
 * directory while it uses system/. Leaves files that kiln has written in system/ unchanged. If
 * MIOpen's own directory is not found and |needs_installed| is set, clears |has_system|: MIOpen
 * must not use system/, because it would fail without the models of its own directory. */
CLI_MUST_CHECK int overlay_link_installed(struct overlay *overlay, struct kiln_error *err);

/* Adds file |name| to the manifest, and reports it with |count| and |noun|, such as "12
 * records". */
CLI_MUST_CHECK int overlay_wrote(struct overlay *overlay, const char *name, uint64_t count,
                                 const char *noun, struct kiln_error *err);
void overlay_remark(struct overlay *overlay, const char *fmt, ...) CLI_PRINTF(2, 3);
