/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Recovers the readable part of a damaged write-ahead log.
 *
 * Role       SQLite's recovery stops silently at the first page of a log that fails its check, and
 *            drops every later commit. This code checks each page independently of earlier damage
 * Threading  any thread; nobody may write to the files meanwhile
 */
#include "common/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct log_state {
    uint64_t pages; /* number of pages in the log, up to the last one that ends a transaction */
    uint64_t lost;  /* how many of |pages| cannot be read, or belong to a transaction whose end
                     * cannot be read */
    /* true: SQLite's recovery would drop complete transactions of this log */
    bool damaged;
};

/* Counts the pages of the log that can and cannot be read. |ret_state| is zeroed if there is no
 * log, or no complete transaction. If neither the log's header nor the end of any transaction can
 * be read, all pages count as lost. */
KILN_MUST_CHECK enum kiln_code log_inspect(const char *path, struct log_state *ret_state,
                                           struct kiln_err *err);
/* Copies the readable pages of the log |path| into the database |file|, in their order. A page
 * that could not be read keeps its older content, so readers of |file| must check what they
 * read. */
KILN_MUST_CHECK enum kiln_code log_apply(const char *path, const char *file, struct kiln_err *err);
