/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The fleet's tree in a local directory.
 *
 * Role       kilnctl and kiln-transfer write trees. Files never change, except pointers
 * Ownership  the caller owns the descriptor of the root
 * Threading  any thread; several processes may write to one tree
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

/* Creates the directory if it does not exist. */
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
/* Calls |each| for the entries of a directory in the order of their names. Temporary files and
 * other names that begin with a dot are left out. A directory that does not exist is empty. */
KILN_MUST_CHECK enum kiln_code fleet_tree_list(int root, const char *name,
                                               enum kiln_code (*each)(void *context,
                                                                      const char *entry,
                                                                      struct kiln_err *err),
                                               void *context, struct kiln_err *err);
