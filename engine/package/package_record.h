/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * FILE.json of an installed package: the results of the checks at installation.
 *
 *   {"format": "kiln-package-record-1", "sha256", "size", "inode", "modified", "rows", "installed",
 *    "signer", "version", "signed", "source"}
 *
 * Hashing a package of 400 MB takes longer than a daemon may take to start. Only the daemon can
 * write to the directory.  So a file with the recorded inode, size and modification time must be
 * the one that was checked, and is not hashed.  Any other file is hashed. Numbers that JSON cannot
 * represent are stored as texts.
 *
 * Threading  one thread at a time for each directory
 */
#include "engine/package/package.h"
#include "engine/package/package_file.h"

/* Reads the record of the file |name| in |directory|. Returns KILN_NOT_FOUND, without a message, if
 * there is no record; KILN_DENIED if the file is not the installed one; and KILN_NO_MEMORY or
 * KILN_IO if a later attempt may succeed. If a crash left the record under its temporary name,
 * renames it. If the file has another inode but the right hash (a restored backup), updates the
 * record. */
KILN_MUST_CHECK enum kiln_code package_record_read(const char *directory, const char *name,
                                                   const struct file_identity *identity,
                                                   struct package_record *ret_record,
                                                   struct kiln_err *err);
/* Writes the record before the file is moved into place, under a temporary name.
 * package_record_read finds it when the file is in place. */
KILN_MUST_CHECK enum kiln_code package_record_announce(const char *directory, const char *name,
                                                       const struct file_identity *identity,
                                                       const struct package_record *record,
                                                       struct kiln_err *err);
/* Removes the announced record, because the file will not be installed. */
void package_record_withdraw(const char *directory, const char *name);
/* Gives the announced record its final name. Call it when the file is in place. */
KILN_MUST_CHECK enum kiln_code package_record_settle(const char *directory, const char *name,
                                                     struct kiln_err *err);
/* Removes the record under both names.  Ignores failures. */
void package_record_remove(const char *directory, const char *name);
