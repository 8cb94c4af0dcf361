/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Operations on a whole database: an online copy and a full vacuum.
 *
 * Threading  one thread at a time for the connection; other connections may write to the same file
 *            meanwhile
 */
#include "engine/db/db.h"

/* Writes a consistent copy in rollback mode, mode 0600. |path| must not exist. The copy is not
 * synced to the disk. On failure, no file remains. Only users who may see the data may have
 * write access to the directory. */
KILN_MUST_CHECK enum kiln_code db_backup(struct db *db, const char *path, struct kiln_err *err);
/* Removes free pages. Needs memory for the whole file. A failure leaves the file as it was. */
KILN_MUST_CHECK enum kiln_code db_vacuum(struct db *db, struct kiln_err *err);
