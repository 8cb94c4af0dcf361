/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * By what an overlay's file is known again, so that only one that changed is read.
 *
 * Role       size, time and inode of the file and of the logs that SQLite keeps beside it; of
 *            databases also a digest of their content, for when those tell nothing
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

enum { OVERLAY_PARTS = 3 }; /* the file, its write-ahead log, its journal */

struct overlay_fingerprint {
    struct {
        uint64_t size, s, ns, inode; /* all 0: it is not there, or empty */
    } parts[OVERLAY_PARTS];
    /* It was changed just before it was looked at: another change then may show the same times. */
    bool is_fresh;
    char digest[65]; /* SHA-256, in hexadecimal; "": not taken */
};

/* As it is now, without a digest.  KILN_E_NOT_FOUND where there is none. */
CLI_MUST_CHECK int overlay_fingerprint_stat(const char *path,
                                            struct overlay_fingerprint *ret_fingerprint,
                                            struct kiln_error *err);
/* Reads all of it.  No link is followed and nothing is waited for. */
CLI_MUST_CHECK int overlay_fingerprint_read(const char *path,
                                            struct overlay_fingerprint *fingerprint,
                                            struct kiln_error *err);
/* Size, time and inode say that |now| is what |noted| was. */
bool overlay_fingerprint_same(const struct overlay_fingerprint *noted,
                              const struct overlay_fingerprint *now);
/* Content does; false where a digest was not taken. */
bool overlay_fingerprint_same_content(const struct overlay_fingerprint *noted,
                                      const struct overlay_fingerprint *now);

/* As members of |object|, and back; what is missing there tells nothing. */
void overlay_fingerprint_set(struct json *object, const struct overlay_fingerprint *fingerprint);
struct overlay_fingerprint overlay_fingerprint_get(const struct json *object);
