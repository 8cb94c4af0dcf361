/* SPDX-License-Identifier: MIT */
#pragma once

/* The manifest of an overlay, the file .kiln-overlay.json in it.  'miopen overlay' records there
 * which files it has written, so that 'miopen harvest' recognises new data.
 *
 * Role       has each file's fingerprint and, for text files, the digests of their lines
 * Ownership  overlay_manifest owns everything in it
 * Threading  one thread; overlay_lock keeps other processes from changing the overlay */
#include "cli/kilnctl/miopen_version.h"
#include "cli/kilnctl/overlay_fingerprint.h"
#include "cli/kilnctl/overlay_lines.h"

#include <sys/types.h>

#define OVERLAY_MANIFEST ".kiln-overlay.json"

struct overlay_file {
    /* path in the overlay, such as "user/gfx906_60_1.1.0.udb" */
    char name[160];
    struct overlay_fingerprint fingerprint;
    struct overlay_lines lines;
};

struct overlay_manifest {
    char version[MIOPEN_VERSION_MAX];
    /* files have the mode that the umask allows; if false, only the caller may read them */
    bool is_shared;
    struct overlay_file *files;
    size_t count;
};

/* Returns KILN_E_NOT_FOUND if the overlay has no manifest, and KILN_E_CORRUPT if the manifest is
 * damaged. */
CLI_MUST_CHECK int overlay_manifest_read(const char *directory,
                                         struct overlay_manifest *ret_manifest,
                                         struct kiln_error *err);
CLI_MUST_CHECK int overlay_manifest_write(const char *directory,
                                          const struct overlay_manifest *manifest,
                                          struct kiln_error *err);
void overlay_manifest_done(struct overlay_manifest *manifest);
#define OVERLAY_MANIFEST_AUTO __attribute__((cleanup(overlay_manifest_done)))

/* Returns the entry of file |name|. If there is none, adds one, which counts as changed. */
CLI_MUST_CHECK int overlay_manifest_get(struct overlay_manifest *manifest, const char *name,
                                        struct overlay_file **ret_file, struct kiln_error *err);
struct overlay_file *overlay_manifest_find(struct overlay_manifest *manifest, const char *name);

/* Returns the mode for new_file: 0 (0666, reduced by the umask) if |is_shared|, otherwise 0600. */
mode_t overlay_file_mode(bool is_shared);

CLI_MUST_CHECK int overlay_path(const char *directory, const char *name, char *path, size_t size,
                                struct kiln_error *err);
/* Locks the overlay until the caller closes |*ret_fd|. Blocks while another process has the
 * lock. */
CLI_MUST_CHECK int overlay_lock(const char *directory, int *ret_fd, struct kiln_error *err);
