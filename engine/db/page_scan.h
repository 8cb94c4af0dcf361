/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Rows out of the pages of a SQLite file, without SQLite.
 *
 * Role       saves what can be read of a file that SQLite refuses as a whole or in part: it walks
 *            trees from their root and stops at the first damaged page, here each page stands for
 *            itself.  What is found proves nothing: callers check it by their own means
 * Ownership  the descriptor is borrowed
 * Threading  one thread at a time for each scan
 *
 * Known are leaf pages of tables, all pages of indices, and the overflow pages that their cells
 * lead to (https://sqlite.org/fileformat2.html).  Pages on the free list are left out; texts are
 * taken as UTF-8, whatever the header says.
 */
#include "common/bytes.h"
#include "common/err.h"

#define PAGE_COLUMNS_MAX 8 /* of a record; what follows is not looked at */

struct page_scan;

/* KILN_CORRUPT when there is not even one page. */
KILN_MUST_CHECK enum kiln_code page_scan_open(int fd, struct page_scan **ret_scan,
                                              struct kiln_err *err);
/* Records of a crafted file may overlap: in all, page_scan_read gives back some times the file's
 * size, counted from here on. */
void page_scan_restart(struct page_scan *scan);
void page_scan_destroy(struct page_scan *scan);
KILN_DEFINE_AUTO(page_scan)

enum page_kind { PAGE_NULL, PAGE_NUMBER, PAGE_BLOB, PAGE_TEXT };

struct page_cell { /* one record, and where it lies */
    bool in_index;
    int64_t id;                         /* row id; 0 in an index, whose records end with it */
    uint32_t page, at, local, overflow; /* |local| bytes at |at|, the rest from page |overflow| */
    uint64_t size;                      /* of the record, with its header */
    unsigned columns;                   /* at most PAGE_COLUMNS_MAX */
    uint8_t kinds[PAGE_COLUMNS_MAX];    /* enum page_kind */
};

/* Every record whose header makes sense, in no order.  |each| returns false to stop.  Of a page
 * whose records overlap, no more than would fill it. */
void page_scan_each(struct page_scan *scan,
                    bool (*each)(void *context, const struct page_cell *cell), void *context);

struct page_value {
    int64_t number;
    struct bytes bytes; /* of blobs and texts */
};

/* Appends the record to |record| and points |values|, as many as the cell has columns, into it.
 * False when it is damaged, or longer than |record| may become. */
bool page_scan_read(struct page_scan *scan, const struct page_cell *cell, struct buffer *record,
                    struct page_value values[PAGE_COLUMNS_MAX]);
