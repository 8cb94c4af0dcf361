/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A database as a whole: copied while others write to it, and packed tight.
 *
 * Threading  that of the connection; another connection of the same file may be written to
 * meanwhile
 */
#include "engine/db/db.h"

/* One consistent state of |db| as the new file |path|, mode 0600, which must not exist; it stands
 * alone (in rollback mode) and is on the disk when this returns.  On failure nothing is left.  The
 * directory must be one that nobody changes who is not trusted with the data. */
KILN_MUST_CHECK enum kiln_code db_backup(struct db *db, const char *path, struct kiln_err *err);
/* Writes the file anew without its holes; takes memory for the whole of it.  All or nothing. */
KILN_MUST_CHECK enum kiln_code db_vacuum(struct db *db, struct kiln_err *err);
