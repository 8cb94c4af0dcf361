/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Operations on a whole database: an online copy and a full vacuum.
 *
 * Threading  one thread at a time for the connection; other connections may write to the same file
 *            meanwhile
 */
#include "engine/db/db.h"

/* Writes a consistent copy of |db| to the new file |path|, mode 0600, which must not exist. The
 * copy needs no other file (rollback mode). The copy is not synced to the disk; a caller that keeps
 * it must sync it. On failure, no file remains. Only users who may see the data may have write
 * access to the directory. */
KILN_MUST_CHECK enum kiln_code db_backup(struct db *db, const char *path, struct kiln_err *err);
/* Rewrites the file without its free pages. A failure leaves the file as it was. Needs memory for
 * the whole file. */
KILN_MUST_CHECK enum kiln_code db_vacuum(struct db *db, struct kiln_err *err);
