/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Databases in a directory that can be reached by being in it alone.
 *
 * Threading  once, before anything is opened
 */

/* From now on this process opens a relative path as it is, from its working directory, and follows
 * links.  SQLite itself would spell the path out, through directories that may be closed to us. */
void db_stay_in_working_directory(void);
