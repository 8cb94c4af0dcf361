/* SPDX-License-Identifier: MIT */
#pragma once

/* The fingerprint of a file in an overlay.  'miopen harvest' compares fingerprints, so that it only
 * reads files that have changed.
 *
 * Role       has the size, time and inode of the file and of SQLite's logs next to it.  A
 *            database's fingerprint also has a digest of the content, for cases in which the time
 *            does not prove that the file is unchanged (|is_fresh|)
 * Ownership  plain values
 * Threading  one thread */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

enum { OVERLAY_PARTS = 3 };

struct overlay_fingerprint {
    struct {
        uint64_t size, s, ns, inode;
    } parts[OVERLAY_PARTS];
    /* The fingerprint was taken so soon after a change that a later change may have the same
     * time. */
    bool is_fresh;
    char digest[65];
};

/* Fills everything except the digest. Returns KILN_E_NOT_FOUND if the file does not exist. */
CLI_MUST_CHECK int overlay_fingerprint_stat(const char *path,
                                            struct overlay_fingerprint *ret_fingerprint,
                                            struct kiln_error *err);
/* Adds the digest of the content of the file and its logs. Does not follow links, and does not
 * block if the file is a pipe. Returns KILN_E_TIMED_OUT if this takes until |deadline_ns|
 * (session_deadline_ns). */
CLI_MUST_CHECK int overlay_fingerprint_read(const char *path, uint64_t deadline_ns,
                                            struct overlay_fingerprint *fingerprint,
                                            struct kiln_error *err);
/* Returns true if sizes, times and inodes prove that the file has not changed. */
bool overlay_fingerprint_same(const struct overlay_fingerprint *noted,
                              const struct overlay_fingerprint *now);
/* Returns true if the digests prove that the content has not changed. Returns false if a digest is
 * missing. */
bool overlay_fingerprint_same_content(const struct overlay_fingerprint *noted,
                                      const struct overlay_fingerprint *now);

/* Write a fingerprint into the manifest, and read it. If members are missing in |object|, the file
 * counts as changed. */
void overlay_fingerprint_set(struct json *object, const struct overlay_fingerprint *fingerprint);
struct overlay_fingerprint overlay_fingerprint_get(const struct json *object);
