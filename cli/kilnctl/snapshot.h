/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One consistent file of a kernel database that MIOpen may have open.
 *
 * Role       has kiln-transfer --snapshot open it, with this user's rights, and merge its
 *            write-ahead log; kilnd gets the descriptor
 * Ownership  the descriptor is the caller's
 * Threading  main thread; blocks
 */
#include "cli/fail.h"

#include <stdbool.h>

struct snapshot {
    int fd;
    bool merged;    /* a copy with the write-ahead log in it; else the file itself */
    char note[512]; /* what cannot be had of it; "" as a rule */
};

/* Without the program the file itself is opened, which KILN_E_UNSUPPORTED refuses while there is a
 * log beside it. */
CLI_MUST_CHECK int snapshot_open(const char *path, struct snapshot *ret_snapshot,
                                 struct kiln_error *err);
/* The file itself, as it is. */
CLI_MUST_CHECK int snapshot_open_plain(const char *path, int *ret_fd, struct kiln_error *err);
/* A write-ahead log or a journal lies beside |path|: the file alone is not all there is. */
bool snapshot_has_log(const char *path);
