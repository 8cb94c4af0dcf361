/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What 'miopen overlay' wrote into a directory, so that 'miopen harvest' knows what is new: the
 * file .kiln-overlay.json in it.
 *
 * Role       of each file by what it is known again; of text the digests of its lines
 * Ownership  overlay_manifest owns everything in it
 * Threading  one thread; overlay_lock keeps other processes away
 */
#include "cli/kilnctl/overlay_fingerprint.h"
#include "cli/kilnctl/overlay_lines.h"

#include <sys/types.h>

#define OVERLAY_MANIFEST ".kiln-overlay.json"

struct overlay_file {
    char name[160];                         /* below the directory: "user/gfx906_60_1.1.0.udb" */
    struct overlay_fingerprint fingerprint; /* as it was written, or harvested */
    struct overlay_lines lines;             /* of text */
};

struct overlay_manifest {
    char version[48];           /* of MIOpen; "" */
    bool is_shared;             /* others may read what is in it, as the umask leaves it */
    struct overlay_file *files; /* owned */
    size_t count;
};

/* KILN_E_NOT_FOUND where there is none; KILN_E_CORRUPT where it is not what overlay wrote. */
CLI_MUST_CHECK int overlay_manifest_read(const char *directory,
                                         struct overlay_manifest *ret_manifest,
                                         struct kiln_error *err);
CLI_MUST_CHECK int overlay_manifest_write(const char *directory,
                                          const struct overlay_manifest *manifest,
                                          struct kiln_error *err);
void overlay_manifest_done(struct overlay_manifest *manifest); /* accepts a zeroed one */
#define OVERLAY_MANIFEST_AUTO __attribute__((cleanup(overlay_manifest_done)))

/* Added where it is not noted yet: as one that has changed since. */
CLI_MUST_CHECK int overlay_manifest_get(struct overlay_manifest *manifest, const char *name,
                                        struct overlay_file **ret_file, struct kiln_error *err);
/* NULL: nothing is noted of it. */
struct overlay_file *overlay_manifest_find(struct overlay_manifest *manifest, const char *name);

/* 0: as the umask leaves it. */
mode_t overlay_file_mode(bool is_shared);

/* |directory|/|name|. */
CLI_MUST_CHECK int overlay_path(const char *directory, const char *name, char *path, size_t size,
                                struct kiln_error *err);
/* Held until |*ret_fd| is closed; waits for who holds it. */
CLI_MUST_CHECK int overlay_lock(const char *directory, int *ret_fd, struct kiln_error *err);
