/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Operations on a whole database: an online copy and a full vacuum.
 *
 * Threading  as the connection; other connections may write to the same file meanwhile
 */
#include "engine/db/db.h"

/* Writes a consistent copy of |db| to the new file |path|, mode 0600, which must not exist. The
 * copy needs no other file (rollback mode). It is not synced: that is for those who keep it. On
 * failure nothing is left behind. Only users trusted with the data may be able to change the
 * directory. */
KILN_MUST_CHECK enum kiln_code db_backup(struct db *db, const char *path, struct kiln_err *err);
/* Rewrites the file without its free pages, all or nothing. Needs memory for the whole file. */
KILN_MUST_CHECK enum kiln_code db_vacuum(struct db *db, struct kiln_err *err);
