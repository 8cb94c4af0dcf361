/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * FILE.json beside an installed package: what was checked when kiln installed it.
 *
 *   {"format": "kiln-package-record-1", "sha256", "size", "inode", "modified", "rows", "installed",
 *    "signer", "source"}
 *
 * Hashing a package of 400 MB takes longer than a daemon may take to start.  The directory is the
 * daemon's own, so a file that has the recorded inode, size and time of change is taken for the one
 * that was checked; any other is hashed.  Numbers that JSON cannot hold are texts.
 *
 * Threading  one thread at a time for each directory
 */
#include "engine/package/package.h"
#include "engine/package/package_file.h"

/* The record that belongs to the file |name| in |directory|.  KILN_NOT_FOUND without a sentence
 * when there is none; KILN_DENIED when the file is not the one that was installed.  A record that a
 * crash left under its other name, or that states another inode (a restored backup) but the right
 * hash, is put right. */
KILN_MUST_CHECK enum kiln_code package_record_read(const char *directory, const char *name,
                                                   const struct file_identity *identity,
                                                   struct package_record *ret_record,
                                                   struct kiln_err *err);
/* Writes the record of a file that is not in place yet, so that it comes first: read finds it when
 * the file has arrived. */
KILN_MUST_CHECK enum kiln_code package_record_announce(const char *directory, const char *name,
                                                       const struct file_identity *identity,
                                                       const struct package_record *record,
                                                       struct kiln_err *err);
/* The announced file does not come. */
void package_record_withdraw(const char *directory, const char *name);
/* The announced file is in place. */
KILN_MUST_CHECK enum kiln_code package_record_settle(const char *directory, const char *name,
                                                     struct kiln_err *err);
/* Both names; best effort. */
void package_record_remove(const char *directory, const char *name);
