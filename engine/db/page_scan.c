/* SPDX-License-Identifier: MIT */
#include "engine/db/page_scan.h"

#include "common/base/fs.h"
#include "engine/db/sqlite_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The format (https://sqlite.org/fileformat2.html): a file is an array of pages. Tables are B-trees
 * of pages; rows are in their leaf pages. A leaf page begins with its type and the number of its
 * cells. An array of 16-bit offsets to the cells follows. A cell has the following parts. Its
 * numbers are varints (7 bits in each byte; the high bit means that another byte follows), except
 * the last one, which is a 32-bit number:
 *
 *     size of the record   row id   record   number of the first overflow page
 *
 * If a record is too long for its page, the rest is in a chain of overflow pages, each of which
 * begins with the number of the next. A record is a header and a body. The header consists of its
 * own length and one type for each column. The type also determines the column's length.
 *
 * Example: the row (id 5, x = 300, name = 'abc') of "t (x, name)" is the cell
 *
 *     08         record of 8 bytes
 *     05         row id 5
 *     03 02 13   header: 3 bytes; type 2, a 16-bit number; type 0x13 = 19, text of (19-13)/2 = 3
 *     01 2c      300
 *     61 62 63   'abc'
 *
 * SQLite reaches a leaf through its parents, so a damaged inner page hides everything below it.
 * This code reads each leaf page by itself, without its parents. A cell is reported only if the
 * lengths in its header add up to the length of its record. Few damaged cells pass this check.
 * Freed pages still contain old rows, so pages on the free list are skipped.
 */
#define FILE_HEADER 100
#define TABLE_LEAF 13
#define CELL_POINTERS 8
#define VARINT_MAX 9
/* How many times the file's size one scan may read. In a crafted file, many records may use the
 * same long chain of pages. */
#define READS_MAX 8

struct page_scan {
    int fd;
    uint32_t page_size;
    uint32_t page_count;
    uint32_t loaded;
    uint8_t *page;
    uint8_t *overflow;
    uint8_t *is_free; /* owned, one byte for each page number from 0 */
    uint64_t left;    /* how many bytes of records may still be read */
};

/* Returns 0 if the varint does not end before |end|. */
static size_t read_varint(const uint8_t *at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < VARINT_MAX && at + i < end; i++) {
        if (i == VARINT_MAX - 1) {
            *ret_value = value << 8 | at[i];
            return VARINT_MAX;
        }
        value = value << 7 | (at[i] & 0x7f);
        if (!(at[i] & 0x80)) {
            *ret_value = value;
            return i + 1;
        }
    }
    return 0;
}

/* Reads a page, with zeros in place of bytes that cannot be read. A page that begins with zeros is
 * skipped later, because its type is not that of a leaf. */
static void read_page_into(struct page_scan *scan, uint32_t page, uint8_t *into)
{
    size_t have = 0;
    off_t at = (off_t)(page - 1) * scan->page_size;
    while (have < scan->page_size) {
        ssize_t got = pread(scan->fd, into + have, scan->page_size - have, at + (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    memset(into + have, 0, scan->page_size - have);
}

static void load_page(struct page_scan *scan, uint32_t page)
{
    if (scan->loaded != page)
        read_page_into(scan, page, scan->page);
    scan->loaded = page;
}

static void read_sizes(struct page_scan *scan, const uint8_t *header)
{
    scan->page_size = sqlite_page_size(header + SQLITE_PAGE_SIZE_AT);
}

/* Marks the free pages that |trunk|, a page of the free list, names. Returns the next page of the
 * free list, or 0 after the last one or if |trunk| is damaged. */
static uint32_t walk_trunk(struct page_scan *scan, uint32_t trunk, uint32_t *marked)
{
    read_page_into(scan, trunk, scan->overflow);
    uint32_t count = sqlite_be32(scan->overflow + 4);
    if (count > scan->page_size / 4 - 2)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t page = sqlite_be32(scan->overflow + 8 + 4 * (size_t)i);
        if (page > 1 && page <= scan->page_count && !scan->is_free[page]) {
            scan->is_free[page] = 1;
            ++*marked;
        }
    }
    return sqlite_be32(scan->overflow);
}

/* Marks the pages of the free list as free. If the list does not have the length that the header
 * states, marks nothing, because a damaged list may name pages that are in use. */
static void mark_free_pages(struct page_scan *scan, const uint8_t *header)
{
    uint32_t marked = 0;
    for (uint32_t trunk = sqlite_be32(header + 32);
         trunk > 1 && trunk <= scan->page_count && !scan->is_free[trunk];) {
        scan->is_free[trunk] = 1;
        marked++;
        trunk = walk_trunk(scan, trunk, &marked);
    }
    if (marked != sqlite_be32(header + 36))
        memset(scan->is_free, 0, (size_t)scan->page_count + 1);
}

enum kiln_code page_scan_open(int fd, struct page_scan **ret_scan, struct kiln_err *err)
{
    KILN_AUTO(page_scan) struct page_scan *scan = calloc(1, sizeof(*scan));
    uint8_t header[FILE_HEADER];
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read the size of a damaged file");
    if (fs_read_at(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header))
        return kiln_fail(err, KILN_CORRUPT, "the file is too short to contain any row");
    if (!scan)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read a damaged file: out of memory");
    scan->fd = fd;
    read_sizes(scan, header);
    uint64_t pages = ((uint64_t)seen.st_size + scan->page_size - 1) / scan->page_size;
    scan->page_count = pages > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)pages;
    scan->page = malloc(scan->page_size);
    scan->overflow = malloc(scan->page_size);
    scan->is_free = calloc((size_t)scan->page_count + 1, 1);
    if (!scan->page || !scan->overflow || !scan->is_free)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read a damaged file: out of memory");
    mark_free_pages(scan, header);
    scan->left = READS_MAX * (uint64_t)scan->page_count * scan->page_size;
    *ret_scan = KILN_TAKE(scan);
    return KILN_OK;
}

void page_scan_destroy(struct page_scan *scan)
{
    if (!scan)
        return;
    free(scan->page);
    free(scan->overflow);
    free(scan->is_free);
    free(scan);
}

static uint32_t local_size(const struct page_scan *scan, uint64_t size)
{
    uint32_t usable = scan->page_size; /* kiln reserves no part of a page */
    uint32_t max = usable - 35;
    uint32_t min = (usable - 12) * 32 / 255 - 23;
    if (size <= max)
        return (uint32_t)size;
    uint32_t local = min + (uint32_t)((size - min) % (usable - 4));
    return local <= max ? local : min;
}

static uint64_t size_of_type(uint64_t type)
{
    static const uint8_t fixed[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };
    return type >= 12 ? (type - 12) / 2 : type < sizeof(fixed) ? fixed[type] : 0;
}

static enum page_kind kind_of_type(uint64_t type)
{
    if (type >= 12)
        return type % 2 ? PAGE_TEXT : PAGE_BLOB;
    return type == 0 ? PAGE_NULL : PAGE_NUMBER;
}

struct columns {
    const uint8_t *at, *end;
    uint64_t body;
    uint64_t type;
};

/* Returns false unless the whole header is in the first |local| bytes, as in all records with
 * few columns. */
static bool columns_begin(struct columns *c, const uint8_t *record, uint64_t local)
{
    uint64_t header = 0;
    size_t used = read_varint(record, record + local, &header);
    if (used == 0 || header < used || header > local)
        return false;
    *c = (struct columns){ .at = record + used, .end = record + header, .body = header };
    return true;
}

/* Moves to the next column; |ret_at| is its offset in the record. Returns false at the end, or
 * after damage. */
static bool columns_next(struct columns *c, uint64_t *ret_at)
{
    size_t used = read_varint(c->at, c->end, &c->type);
    if (used == 0 || c->type == 10 || c->type == 11)
        return false;
    *ret_at = c->body;
    c->at += used;
    c->body += size_of_type(c->type);
    return c->body >= *ret_at;
}

static bool describe_record(const uint8_t *record, struct page_cell *cell, uint64_t *of_headers)
{
    struct columns c;
    uint64_t at = 0;
    if (!columns_begin(&c, record, cell->local))
        return false;
    while (columns_next(&c, &at)) {
        if (cell->columns < PAGE_COLUMNS_MAX)
            cell->kinds[cell->columns++] = (uint8_t)kind_of_type(c.type);
    }
    *of_headers += (uint64_t)(c.at - record);
    return c.at == c.end && c.body == cell->size;
}

static bool read_cell(const struct page_scan *scan, uint32_t at, struct page_cell *ret_cell,
                      uint64_t *of_headers)
{
    struct page_cell cell = { .page = scan->loaded };
    const uint8_t *from = scan->page + at, *end = scan->page + scan->page_size;
    uint64_t id = 0;
    size_t used = read_varint(from, end, &cell.size);
    size_t of_id = used ? read_varint(from + used, end, &id) : 0;
    if (of_id == 0)
        return false;
    from += used + of_id;
    cell.id = (int64_t)id;
    cell.at = (uint32_t)(from - scan->page);
    cell.local = local_size(scan, cell.size);
    bool whole = cell.local == cell.size;
    if (cell.at + cell.local + (whole ? 0 : 4) > scan->page_size)
        return false;
    cell.overflow = whole ? 0 : sqlite_be32(from + cell.local);
    *ret_cell = cell;
    return describe_record(from, ret_cell, of_headers);
}

/* Returns whether the page's cells, or their headers, are together longer than the page. In a
 * crafted page, many cells may overlap, and would keep kiln busy. Headers of rejected cells count,
 * too, because reading them takes time. */
static bool is_crowded(const struct page_scan *scan, uint64_t of_cells, uint64_t of_headers)
{
    return of_cells > scan->page_size || of_headers > scan->page_size;
}

static bool cells_of_page(struct page_scan *scan,
                          bool (*each)(void *context, const struct page_cell *cell), void *context)
{
    uint32_t page = scan->loaded, start = page == 1 ? FILE_HEADER : 0;
    const uint8_t *header = scan->page + start;
    if (header[0] != TABLE_LEAF)
        return true;
    uint32_t pointers = start + CELL_POINTERS;
    uint32_t count = sqlite_be16(header + 3);
    uint64_t of_cells = 0, of_headers = 0;
    for (uint32_t i = 0; i < count && pointers + 2 * i + 2 <= scan->page_size; i++) {
        uint32_t at = sqlite_be16(scan->page + pointers + 2 * (size_t)i);
        struct page_cell cell;
        bool is_one =
            at >= pointers && at < scan->page_size && read_cell(scan, at, &cell, &of_headers);
        of_cells += is_one ? cell.local : 0;
        if (is_crowded(scan, of_cells, of_headers))
            return true;
        if (is_one && !each(context, &cell))
            return false;
        load_page(scan, page); /* |each| may have loaded another page */
    }
    return true;
}

void page_scan_each(struct page_scan *scan,
                    bool (*each)(void *context, const struct page_cell *cell), void *context)
{
    bool go_on = true;
    for (uint32_t page = 1; go_on && page <= scan->page_count; page++) {
        if (scan->is_free[page])
            continue;
        load_page(scan, page);
        go_on = cells_of_page(scan, each, context);
    }
}

static bool copy_record(struct page_scan *scan, const struct page_cell *cell, struct buffer *record)
{
    if (cell->size > scan->left)
        return false;
    scan->left -= cell->size;
    load_page(scan, cell->page);
    buffer_put(record, scan->page + cell->at, cell->local);
    uint64_t left = cell->size - cell->local;
    for (uint32_t page = cell->overflow; left > 0 && !record->failed;) {
        if (page < 2 || page > scan->page_count)
            return false;
        read_page_into(scan, page, scan->overflow);
        uint64_t part = left < scan->page_size - 4 ? left : scan->page_size - 4;
        buffer_put(record, scan->overflow + 4, (size_t)part);
        left -= part;
        page = sqlite_be32(scan->overflow);
    }
    return !record->failed;
}

static int64_t number_at(const uint8_t *at, uint64_t type)
{
    if (type == 8 || type == 9)
        return (int64_t)(type - 8);
    uint64_t size = size_of_type(type), value = size && at[0] & 0x80 ? UINT64_MAX : 0;
    for (uint64_t i = 0; i < size; i++)
        value = value << 8 | at[i];
    return (int64_t)value;
}

bool page_scan_read(struct page_scan *scan, const struct page_cell *cell, struct buffer *record,
                    struct page_value values[PAGE_COLUMNS_MAX])
{
    size_t start = record->size;
    struct columns c;
    uint64_t at = 0;
    if (!copy_record(scan, cell, record))
        return false;
    const uint8_t *bytes = record->data + start;
    if (!columns_begin(&c, bytes, cell->local))
        return false;
    for (unsigned i = 0; i < cell->columns; i++) {
        if (!columns_next(&c, &at) || c.body > cell->size)
            return false; /* the file changed after page_scan_each reported the cell */
        values[i] = (struct page_value){ 0 };
        if (c.type >= 12)
            values[i].bytes = bytes_of(bytes + at, (size_t)size_of_type(c.type));
        else if (c.type != 7) /* 7 is a floating-point number, which no caller reads */
            values[i].number = number_at(bytes + at, c.type);
    }
    return true;
}
