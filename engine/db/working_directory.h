/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Databases in a directory that is reachable only as the working directory.
 *
 * Threading  call once, before anything is opened
 */

/* From now on this process opens a relative path as given, from its working directory, and
 * follows links. SQLite would otherwise expand the path through parent directories that this
 * process may not be allowed to enter. */
void db_stay_in_working_directory(void);
