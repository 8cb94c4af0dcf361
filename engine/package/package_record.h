/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * FILE.json of an installed package: the results of the checks at installation.
 *
 *   {"format": "kiln-package-record-1", "sha256", "size", "inode", "modified", "rows", "installed",
 *    "signer", "version", "signed", "source"}
 *
 * kilnd does not hash a file again if it has the recorded inode, size and modification time. Only
 * kilnd can write to the directory, so this file must be the one that was checked. Hashing a
 * package of 400 MB would take longer than a daemon may take to start. Numbers that JSON cannot
 * represent are stored as texts.
 *
 * Threading  one thread at a time for each directory
 */
#include "engine/package/package.h"
#include "engine/package/package_file.h"

/* Returns KILN_NOT_FOUND, without a message, if there is no record; KILN_DENIED if the file is
 * not the installed one; and KILN_NO_MEMORY or KILN_IO if a later attempt may succeed. Renames a
 * record that a crash left under its temporary name. Updates the record if the file has another
 * inode but the right hash (a restored backup). */
KILN_MUST_CHECK enum kiln_code package_record_read(const char *directory, const char *name,
                                                   const struct file_identity *identity,
                                                   struct package_record *ret_record,
                                                   struct kiln_err *err);
/* Writes the record under a temporary name, before the file is moved into place. */
KILN_MUST_CHECK enum kiln_code package_record_announce(const char *directory, const char *name,
                                                       const struct file_identity *identity,
                                                       const struct package_record *record,
                                                       struct kiln_err *err);
void package_record_withdraw(const char *directory, const char *name);
KILN_MUST_CHECK enum kiln_code package_record_settle(const char *directory, const char *name,
                                                     struct kiln_err *err);
/* Removes the record under both names. Ignores failures. */
void package_record_remove(const char *directory, const char *name);
