/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens databases in a directory that this process can only reach as its working directory.
 *
 * Threading  call it once, before any database is opened
 */

/* Makes SQLite open a relative path as given. Otherwise SQLite would expand the path through
 * parent directories that this process may not be allowed to enter. */
void db_stay_in_working_directory(void);
