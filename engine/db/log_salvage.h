/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is left of a damaged write-ahead log.
 *
 * Role       SQLite's recovery ends at the first page of a log that fails its check, and takes all
 *            that was committed behind it for leftovers, without a word.  Here each page of the log
 *            stands for itself: its checksum continues the one stored before it
 *            (https://sqlite.org/fileformat2.html#walformat)
 * Threading  any thread; nobody may write to the files meanwhile
 */
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

struct log_state {
    uint64_t pages; /* of the log, up to the last that ends a transaction */
    uint64_t lost;  /* of these, what cannot be read, or is of a transaction whose end cannot */
    /* Recovery would leave out transactions that once were complete: those in |lost|, and whole
     * ones behind them. */
    bool damaged;
};

/* All zeros where there is no log, or nothing in it that ever was complete.  Of a log that nothing
 * can be made of, all pages are lost. */
KILN_MUST_CHECK enum kiln_code log_look(const char *path, struct log_state *ret_state,
                                        struct kiln_err *err);
/* Puts the pages that can be read of the log |path| into the database |file|, in their order.  It
 * is the rest of its readers to find out what does not fit together. */
KILN_MUST_CHECK enum kiln_code log_apply(const char *path, const char *file, struct kiln_err *err);
