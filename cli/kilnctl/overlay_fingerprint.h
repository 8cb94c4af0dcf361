/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The fingerprint of a file in an overlay, so that harvest reads only files that have changed.
 *
 * Role       contains size, time and inode of the file and of SQLite's logs next to it.  The
 *            fingerprint of a database also contains a digest of the content, because the other
 *            values cannot always prove that the file is unchanged
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

enum { OVERLAY_PARTS = 3 };

struct overlay_fingerprint {
    struct {
        uint64_t size, s, ns, inode;
    } parts[OVERLAY_PARTS];
    /* The file was changed just before the fingerprint was taken, so a later change may have the
     * same time. */
    bool is_fresh;
    char digest[65];
};

/* Does not compute the digest.  Returns KILN_E_NOT_FOUND if there is no file. */
CLI_MUST_CHECK int overlay_fingerprint_stat(const char *path,
                                            struct overlay_fingerprint *ret_fingerprint,
                                            struct kiln_error *err);
/* Computes the digest of the whole file.  Neither follows links nor blocks on a pipe.  Returns
 * KILN_E_TIMED_OUT if the end is not reached at |deadline_ns| (session_deadline_ns). */
CLI_MUST_CHECK int overlay_fingerprint_read(const char *path, uint64_t deadline_ns,
                                            struct overlay_fingerprint *fingerprint,
                                            struct kiln_error *err);
/* Returns whether size, time and inode prove that the file has not changed. */
bool overlay_fingerprint_same(const struct overlay_fingerprint *noted,
                              const struct overlay_fingerprint *now);
/* Returns whether the digests prove that the content has not changed.  Returns false if a digest is
 * missing. */
bool overlay_fingerprint_same_content(const struct overlay_fingerprint *noted,
                                      const struct overlay_fingerprint *now);

/* If a member is missing in |object|, the file counts as changed. */
void overlay_fingerprint_set(struct json *object, const struct overlay_fingerprint *fingerprint);
struct overlay_fingerprint overlay_fingerprint_get(const struct json *object);
