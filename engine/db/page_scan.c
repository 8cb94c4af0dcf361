/* SPDX-License-Identifier: MIT */
#include "engine/db/page_scan.h"

#include "common/fs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_HEADER 100
#define PAGE_SIZE_USUAL 4096 /* where the header says nothing believable */
#define INDEX_INNER 2        /* types of tree pages */
#define INDEX_LEAF 10
#define TABLE_LEAF 13
#define VARINT_MAX 9
/* Records of an honest file do not overlap; crafted ones could all claim the same long chain. */
#define READS_MAX 8

struct page_scan {
    int fd; /* borrowed */
    uint32_t page_size;
    uint32_t page_count;
    uint32_t loaded;   /* the page in |page|; 0: none */
    uint8_t *page;     /* owned, page_size bytes */
    uint8_t *overflow; /* owned, page_size bytes */
    uint8_t *is_free;  /* owned, a byte a page, from 0 */
    uint64_t left;     /* bytes that may still be read of records */
};

static uint32_t be16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }
static uint32_t be32(const uint8_t *at) { return be16(at) << 16 | be16(at + 2); }

/* The bytes that |at| takes, 0 when it does not end before |end|. */
static size_t varint(const uint8_t *at, const uint8_t *end, uint64_t *ret_value)
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

/* What cannot be read is zeros: no page of a tree. */
static void load(struct page_scan *scan, uint32_t page, uint8_t *into)
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
        load(scan, page, scan->page);
    scan->loaded = page;
}

/* ---- the file ---- */

static void read_sizes(struct page_scan *scan, const uint8_t *header)
{
    uint32_t size = be16(header + 16) == 1 ? 65536 : be16(header + 16);
    bool believable = size >= 512 && size <= 65536 && (size & (size - 1)) == 0;
    scan->page_size = believable ? size : PAGE_SIZE_USUAL;
}

/* One page of the free list, marking those it names; 0 at the end or where it is damaged. */
static uint32_t walk_trunk(struct page_scan *scan, uint32_t trunk, uint32_t *marked)
{
    load(scan, trunk, scan->overflow);
    uint32_t count = be32(scan->overflow + 4);
    if (count > scan->page_size / 4 - 2)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t page = be32(scan->overflow + 8 + 4 * (size_t)i);
        if (page > 1 && page <= scan->page_count && !scan->is_free[page]) {
            scan->is_free[page] = 1;
            ++*marked;
        }
    }
    return be32(scan->overflow);
}

/* Free pages still look like what they were.  The list counts only if it is as long as the header
 * says: a damaged one may name any page. */
static void mark_free_pages(struct page_scan *scan, const uint8_t *header)
{
    uint32_t marked = 0;
    for (uint32_t trunk = be32(header + 32);
         trunk > 1 && trunk <= scan->page_count && !scan->is_free[trunk];) {
        scan->is_free[trunk] = 1;
        marked++;
        trunk = walk_trunk(scan, trunk, &marked);
    }
    if (marked != be32(header + 36))
        memset(scan->is_free, 0, (size_t)scan->page_count + 1);
}

enum kiln_code page_scan_open(int fd, struct page_scan **ret_scan, struct kiln_err *err)
{
    KILN_AUTO(page_scan) struct page_scan *scan = calloc(1, sizeof(*scan));
    uint8_t header[FILE_HEADER];
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot look at a damaged file");
    if (fs_read_at(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header))
        return kiln_fail(err, KILN_CORRUPT, "there is nothing in it to save");
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
    page_scan_restart(scan);
    *ret_scan = KILN_TAKE(scan);
    return KILN_OK;
}

void page_scan_restart(struct page_scan *scan)
{
    uint64_t size = (uint64_t)scan->page_count * scan->page_size;
    scan->left = READS_MAX * size;
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

/* ---- cells ---- */

/* How many of |size| bytes lie in the page itself. */
static uint32_t local_size(const struct page_scan *scan, bool in_index, uint64_t size)
{
    uint32_t usable = scan->page_size; /* nobody here reserves a part of each page */
    uint32_t most = in_index ? (usable - 12) * 64 / 255 - 23 : usable - 35;
    uint32_t least = (usable - 12) * 32 / 255 - 23;
    if (size <= most)
        return (uint32_t)size;
    uint32_t local = least + (uint32_t)((size - least) % (usable - 4));
    return local <= most ? local : least;
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

struct columns { /* a walk through a record's header */
    const uint8_t *at, *end;
    uint64_t body; /* offset of the next column's bytes in the record */
    uint64_t type;
};

/* The whole header must lie in |local| bytes: that of a few columns always does. */
static bool columns_begin(struct columns *c, const uint8_t *record, uint64_t local)
{
    uint64_t header = 0;
    size_t used = varint(record, record + local, &header);
    if (used == 0 || header < used || header > local)
        return false;
    *c = (struct columns){ .at = record + used, .end = record + header, .body = header };
    return true;
}

/* |ret_at| is where the column's bytes begin.  False at the end, or where the header is damaged. */
static bool columns_next(struct columns *c, uint64_t *ret_at)
{
    size_t used = varint(c->at, c->end, &c->type);
    if (used == 0 || c->type == 10 || c->type == 11)
        return false;
    *ret_at = c->body;
    c->at += used;
    c->body += size_of_type(c->type);
    return c->body >= *ret_at;
}

/* A record's header must account for each of its bytes: hardly any damage passes that.  |looked_at|
 * grows by the bytes that were walked through. */
static bool describe(const uint8_t *record, struct page_cell *cell, uint64_t *looked_at)
{
    struct columns c;
    uint64_t at = 0;
    if (!columns_begin(&c, record, cell->local))
        return false;
    while (columns_next(&c, &at)) {
        if (cell->columns < PAGE_COLUMNS_MAX)
            cell->kinds[cell->columns++] = (uint8_t)kind_of_type(c.type);
    }
    *looked_at += (uint64_t)(c.at - record);
    return c.at == c.end && c.body == cell->size;
}

/* The cell at |at| of the loaded page. */
static bool read_cell(const struct page_scan *scan, uint32_t at, uint8_t type,
                      struct page_cell *ret_cell, uint64_t *looked_at)
{
    struct page_cell cell = { .in_index = type != TABLE_LEAF, .page = scan->loaded };
    const uint8_t *from = scan->page + at, *end = scan->page + scan->page_size;
    if (type == INDEX_INNER)
        from += 4; /* the child page */
    uint64_t id = 0;
    size_t used = from < end ? varint(from, end, &cell.size) : 0;
    size_t of_id = used && !cell.in_index ? varint(from + used, end, &id) : 0;
    if (used == 0 || (!cell.in_index && of_id == 0))
        return false;
    from += used + of_id;
    cell.id = (int64_t)id;
    cell.at = (uint32_t)(from - scan->page);
    cell.local = local_size(scan, cell.in_index, cell.size);
    bool whole = cell.local == cell.size;
    if (cell.at + cell.local + (whole ? 0 : 4) > scan->page_size)
        return false;
    cell.overflow = whole ? 0 : be32(from + cell.local);
    *ret_cell = cell;
    return describe(from, ret_cell, looked_at);
}

/* Two cells of an honest page share no byte, so that all of them together are no longer than the
 * page.  Headers are counted by themselves: one that is damaged may seem longer than it was. */
static bool is_crowded(const struct page_scan *scan, uint64_t of_cells, uint64_t of_headers)
{
    return of_cells > scan->page_size || of_headers > scan->page_size;
}

static bool cells_of_page(struct page_scan *scan,
                          bool (*each)(void *context, const struct page_cell *cell), void *context)
{
    uint32_t page = scan->loaded, start = page == 1 ? FILE_HEADER : 0;
    const uint8_t *header = scan->page + start;
    uint8_t type = header[0];
    if (type != TABLE_LEAF && type != INDEX_LEAF && type != INDEX_INNER)
        return true;
    uint32_t pointers = start + (type == INDEX_INNER ? 12 : 8);
    uint32_t count = be16(header + 3);
    uint64_t of_cells = 0, of_headers = 0;
    for (uint32_t i = 0; i < count && pointers + 2 * i + 2 <= scan->page_size; i++) {
        uint32_t at = be16(scan->page + pointers + 2 * (size_t)i);
        struct page_cell cell;
        bool is_one =
            at >= pointers && at < scan->page_size && read_cell(scan, at, type, &cell, &of_headers);
        of_cells += is_one ? cell.local : 0;
        if (is_crowded(scan, of_cells, of_headers))
            return true; /* damaged, or made to keep us busy */
        if (is_one && !each(context, &cell))
            return false;
        load_page(scan, page); /* |each| may have read another one */
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

/* ---- records ---- */

static bool gather(struct page_scan *scan, const struct page_cell *cell, struct buffer *record)
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
        load(scan, page, scan->overflow);
        uint64_t part = left < scan->page_size - 4 ? left : scan->page_size - 4;
        buffer_put(record, scan->overflow + 4, (size_t)part);
        left -= part;
        page = be32(scan->overflow);
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
    if (!gather(scan, cell, record))
        return false;
    const uint8_t *bytes = record->data + start;
    if (!columns_begin(&c, bytes, cell->local))
        return false;
    for (unsigned i = 0; i < cell->columns; i++) {
        if (!columns_next(&c, &at) || c.body > cell->size)
            return false; /* the file has changed since */
        values[i] = (struct page_value){ 0 };
        if (c.type >= 12)
            values[i].bytes = bytes_of(bytes + at, (size_t)size_of_type(c.type));
        else if (c.type != 7) /* no caller wants fractions */
            values[i].number = number_at(bytes + at, c.type);
    }
    return true;
}
