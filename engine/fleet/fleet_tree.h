/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The fleet's tree in a local directory.
 *
 * Role       kilnctl and kiln-transfer write trees. Files never change, except pointers
 * Ownership  the caller owns the descriptor of the root
 * Threading  any thread; several processes may write to one tree
 */
#include "engine/fleet/fleet_store.h"

/* Opens the tree's directory, which must exist: a name with a typing error is no new tree. */
KILN_MUST_CHECK enum kiln_code fleet_tree_open(const char *path, int *ret_root,
                                               struct kiln_err *err);
/* Writes and syncs the file |name|, unless it exists already. Other processes never see an
 * incomplete file. |ret_added| may be NULL. */
KILN_MUST_CHECK enum kiln_code fleet_tree_add(int root, const char *name, struct bytes content,
                                              bool *ret_added, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code fleet_tree_replace(int root, const char *name, struct bytes content,
                                                  struct kiln_err *err);
/* Returns KILN_NOT_FOUND if there is no such file, and KILN_FULL if the file is larger than the
 * buffer's limit. Both fill |err|. */
KILN_MUST_CHECK enum kiln_code fleet_tree_read(int root, const char *name,
                                               struct buffer *ret_content, struct kiln_err *err);
/* Reads the range |file->offset|, |file->size|. Returns KILN_CORRUPT if the file is shorter. */
KILN_MUST_CHECK enum kiln_code fleet_tree_read_range(int root, struct fleet_file *file,
                                                     struct kiln_err *err);
/* Calls |each| for the entries of a directory in the order of their names, also for temporary files
 * (.writing-*), but for no other name that begins with a dot. A directory that does not exist is
 * empty. Returns an error if the directory, or one above it, is a symbolic link. */
KILN_MUST_CHECK enum kiln_code fleet_tree_list(int root, const char *name, fleet_each *each,
                                               void *context, struct kiln_err *err);
/* Deletes a file. Like fleet_tree_list, follows no symbolic link. */
KILN_MUST_CHECK enum kiln_code fleet_tree_remove(int root, const char *name, struct kiln_err *err);
/* Locks the tree against other calls of this function, until the caller closes |ret_lock|. Sets
 * |ret_lock| to -1 if the file system has no locks. Returns KILN_BUSY if the tree is locked. */
KILN_MUST_CHECK enum kiln_code fleet_tree_lock(int root, int *ret_lock, struct kiln_err *err);
