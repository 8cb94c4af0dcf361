/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The manifest of an overlay is the file .kiln-overlay.json.  The manifest lists the files that
 * 'miopen overlay' wrote, so that 'miopen harvest' finds new data.
 *
 * Role       has a fingerprint of each file, and for text files the digests of their lines
 * Ownership  overlay_manifest owns everything in it
 * Threading  one thread; overlay_lock excludes other processes
 */
#include "cli/kilnctl/miopen_version.h"
#include "cli/kilnctl/overlay_fingerprint.h"
#include "cli/kilnctl/overlay_lines.h"

#include <sys/types.h>

#define OVERLAY_MANIFEST ".kiln-overlay.json"

struct overlay_file {
    /* below the directory, such as "user/gfx906_60_1.1.0.udb" */
    char name[160];
    struct overlay_fingerprint fingerprint;
    struct overlay_lines lines;
};

struct overlay_manifest {
    char version[MIOPEN_VERSION_MAX];
    bool is_shared; /* other users may read the files, as the umask allows */
    struct overlay_file *files;
    size_t count;
};

/* Returns KILN_E_NOT_FOUND if there is no manifest, and KILN_E_CORRUPT if the manifest is
 * invalid. */
CLI_MUST_CHECK int overlay_manifest_read(const char *directory,
                                         struct overlay_manifest *ret_manifest,
                                         struct kiln_error *err);
CLI_MUST_CHECK int overlay_manifest_write(const char *directory,
                                          const struct overlay_manifest *manifest,
                                          struct kiln_error *err);
void overlay_manifest_done(struct overlay_manifest *manifest);
#define OVERLAY_MANIFEST_AUTO __attribute__((cleanup(overlay_manifest_done)))

/* If the file has no entry, adds one that counts as changed. */
CLI_MUST_CHECK int overlay_manifest_get(struct overlay_manifest *manifest, const char *name,
                                        struct overlay_file **ret_file, struct kiln_error *err);
struct overlay_file *overlay_manifest_find(struct overlay_manifest *manifest, const char *name);

/* Returns the mode of files in the overlay. 0 means 0666 without the bits of the umask. */
mode_t overlay_file_mode(bool is_shared);

CLI_MUST_CHECK int overlay_path(const char *directory, const char *name, char *path, size_t size,
                                struct kiln_error *err);
/* Locks the overlay until |*ret_fd| is closed.  Blocks while another process has the lock. */
CLI_MUST_CHECK int overlay_lock(const char *directory, int *ret_fd, struct kiln_error *err);
