/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Operations on a whole database: an online copy and a full vacuum.
 *
 * Threading  one thread at a time for the connection; other connections may write to the same file
 *            meanwhile
 */
#include "engine/db/db.h"

/* Writes a consistent copy with file mode 0600, in SQLite's rollback mode, so that it is one file.
 * |path| must not exist. The copy is not synced to the disk. On failure, no file remains. Only
 * users who may read the data may be able to write to the directory of |path|. */
KILN_MUST_CHECK enum kiln_code db_backup(struct db *db, const char *path, struct kiln_err *err);
/* Rewrites the database without free pages. Needs memory for the whole file. On failure, the file
 * is unchanged. */
KILN_MUST_CHECK enum kiln_code db_vacuum(struct db *db, struct kiln_err *err);
