/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads rows from the pages of a SQLite file without SQLite.
 *
 * Role       salvages a tuning.db that SQLite refuses wholly or in part. A damaged row
 *            may look valid, so callers must check every row
 * Ownership  the descriptor is borrowed
 * Threading  one thread at a time for each scan
 *
 * Texts are taken as UTF-8, whatever the header says.
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#define PAGE_COLUMNS_MAX 8 /* later columns are ignored */

struct page_scan;

/* Returns KILN_CORRUPT if the file is shorter than a database's header. */
KILN_MUST_CHECK enum kiln_code page_scan_open(int fd, struct page_scan **ret_scan,
                                              struct kiln_err *err);
void page_scan_destroy(struct page_scan *scan);
KILN_DEFINE_AUTO(page_scan)

enum page_kind { PAGE_NULL, PAGE_NUMBER, PAGE_BLOB, PAGE_TEXT };

struct page_cell {
    int64_t id;
    uint32_t page, at, local, overflow; /* the record's first |local| bytes are at offset |at| of
                                         * page |page|; the rest begins in page |overflow| */
    uint64_t size;                      /* bytes, including the record's header */
    unsigned columns;
    uint8_t kinds[PAGE_COLUMNS_MAX];
};

/* Reports every record with a plausible header, in no particular order, until |each| returns
 * false. If the records of a page are together longer than the page, the rest of the page is
 * skipped. */
void page_scan_each(struct page_scan *scan,
                    bool (*each)(void *context, const struct page_cell *cell), void *context);

struct page_value {
    int64_t number;
    struct bytes bytes; /* set for blobs and texts */
};

/* Appends the record to |record| and points |values| into it. Returns false if the record is
 * damaged, or exceeds the maximum size of |record|. Records may overlap, so all calls together
 * read at most a few times the file's size. */
bool page_scan_read(struct page_scan *scan, const struct page_cell *cell, struct buffer *record,
                    struct page_value values[PAGE_COLUMNS_MAX]);
