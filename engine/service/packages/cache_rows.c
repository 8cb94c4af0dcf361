/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/cache_rows.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/digest/sha256.h"

#include <string.h>
#include <unistd.h>

/* Maximum number of rows of a step, because storing a row takes time even if its object is
 * small. */
#define ROWS_A_STEP 256
/* Number of bytes that are unpacked before the clock is read again. This may take about 20 ms,
 * because bzip2 always decodes a whole block of 900 KB in one call. */
#define PIECE (256u << 10)

struct current {
    struct kern_row row; /* points into |copy| and |texts| */
    struct buffer copy;  /* owned: the blob and the md5 */
    struct buffer texts;
    struct kern_unpacking *unpacking;
    struct sha256 digest;
    uint64_t size;
    int fd;
};

struct cache_rows {
    struct kern_db *db;
    uint64_t after;
    bool is_over;
    struct current current;
    struct cache_object ready[ROWS_A_STEP]; /* owned from index |popped| to |count| - 1 */
    size_t popped, count;
    uint8_t *piece;
};

struct step {
    struct cache_rows *rows;
    const struct cache_listener *listener;
    uint64_t end_ns;
    uint64_t bytes;
    uint64_t listed;
    bool is_stopped;
    enum kiln_code rc;
    struct kiln_err *err;
};

static void current_done(struct current *c)
{
    kern_unpacking_destroy(c->unpacking);
    buffer_done(&c->copy);
    buffer_done(&c->texts);
    fd_auto(&c->fd);
    *c = (struct current){ .fd = -1 };
}

enum kiln_code cache_rows_open(const char *path, struct cache_rows **ret_rows, struct kiln_err *err)
{
    KILN_AUTO(cache_rows) struct cache_rows *rows = calloc(1, sizeof(*rows));
    if (!rows)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot import a cache");
    rows->current.fd = -1;
    rows->piece = malloc(PIECE);
    if (!rows->piece)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot import a cache");
    enum kiln_code rc = kern_db_open(path, &rows->db, err);
    if (!rc)
        *ret_rows = KILN_TAKE(rows);
    return rc;
}

void cache_object_done(struct cache_object *object)
{
    object_unref(object->object);
    buffer_done(&object->texts);
    *object = (struct cache_object){ 0 };
}

void cache_rows_destroy(struct cache_rows *rows)
{
    if (!rows)
        return;
    for (size_t i = rows->popped; i < rows->count; i++)
        cache_object_done(&rows->ready[i]);
    current_done(&rows->current);
    kern_db_destroy(rows->db);
    free(rows->piece);
    free(rows);
}

bool cache_rows_pop(struct cache_rows *rows, struct cache_object *ret_object)
{
    if (rows->popped == rows->count)
        return false;
    *ret_object = rows->ready[rows->popped++];
    return true;
}

bool cache_rows_is_over(const struct cache_rows *rows)
{
    return rows->is_over && rows->current.fd < 0 && rows->popped == rows->count;
}

uint64_t cache_rows_bytes(const struct cache_rows *rows)
{
    const struct kern_row *row = &rows->current.row;
    uint64_t object = row->raw_size ? row->raw_size : row->stored.size;
    return rows->current.fd < 0 ? 0 : row->stored.size + object;
}

/* Copies the row, because SQLite keeps it only during the first of several steps. */
static enum kiln_code copy_row(struct current *c, const struct kern_row *row, struct kiln_err *err)
{
    size_t texts = row->name.size + row->args.size + 2, copied = row->stored.size + row->md5.size;
    buffer_init(&c->texts, texts);
    buffer_init(&c->copy, copied);
    buffer_put(&c->texts, row->name.data, row->name.size);
    buffer_put_u8(&c->texts, 0);
    buffer_put(&c->texts, row->args.data, row->args.size);
    buffer_put_u8(&c->texts, 0);
    buffer_put(&c->copy, row->stored.data, row->stored.size);
    buffer_put(&c->copy, row->md5.data, row->md5.size);
    if (c->texts.failed || c->copy.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for %zu bytes", texts + copied);
    c->row = *row;
    c->row.name.data = c->texts.data;
    c->row.args.data = c->texts.data + row->name.size + 1;
    c->row.stored.data = c->copy.data;
    c->row.md5.data = c->copy.data ? c->copy.data + row->stored.size : NULL;
    return KILN_OK;
}

static enum kiln_code begin_row(struct current *c, const struct kern_row *row, struct kiln_err *err)
{
    if (row->raw_size > LIMIT_IMPORTED_OBJECT || row->stored.size > LIMIT_IMPORTED_OBJECT)
        return kiln_fail(err, KILN_CORRUPT, "the object has more than %u bytes",
                         LIMIT_IMPORTED_OBJECT);
    enum kiln_code rc = kern_row_check(row, err);
    if (!rc)
        rc = copy_row(c, row, err);
    if (!rc)
        rc = kern_unpacking_begin(&c->row, &c->unpacking, err);
    sha256_init(&c->digest);
    return rc ? rc : fs_memfd("kiln-object", &c->fd, err);
}

static enum kiln_code end_row(struct cache_rows *rows, struct kiln_err *err)
{
    struct current *c = &rows->current;
    struct digest digest = sha256_end(&c->digest);
    struct cache_object made = { .id = c->row.id, .name = c->row.name, .args = c->row.args };
    enum kiln_code rc = fs_seal(c->fd, err);
    if (rc)
        return rc;
    int fd = c->fd;
    c->fd = -1;
    rc = object_from_checked(fd, c->size, &digest, &made.object, err);
    if (rc)
        return rc;
    made.texts = c->texts;
    c->texts = (struct buffer){ 0 };
    rows->ready[rows->count++] = made;
    return KILN_OK;
}

static bool is_time_up(const struct step *s)
{
    return s->bytes >= CACHE_STEP_BYTES || clock_monotonic_ns() >= s->end_ns;
}

static enum kiln_code unpack_row(struct step *s, struct kiln_err *err)
{
    struct cache_rows *rows = s->rows;
    struct current *c = &rows->current;
    do {
        size_t got = 0;
        enum kiln_code rc = kern_unpacking_read(c->unpacking, rows->piece, PIECE, &got, err);
        if (!rc)
            rc = fs_write_all(c->fd, bytes_of(rows->piece, got), err);
        if (rc)
            return rc;
        sha256_put(&c->digest, bytes_of(rows->piece, got));
        c->size += got;
        s->bytes += got;
        if (kern_unpacking_is_over(c->unpacking))
            return end_row(rows, err);
    } while (!is_time_up(s));
    return KILN_OK;
}

/* Reports a damaged row, after which the import continues. Any other failure ends the step. */
static void report_row(struct step *s, const struct kern_row *row, const struct kiln_err *why)
{
    if (why->code == KILN_CORRUPT || why->code == KILN_INVALID) {
        s->listener->damaged(s->listener->context, row->id, row->name, why);
        return;
    }
    *s->err = *why;
    s->rc = why->code;
}

static void continue_row(struct step *s)
{
    struct current *c = &s->rows->current;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = unpack_row(s, &why);
    if (rc)
        report_row(s, &c->row, &why);
    if (rc || c->fd < 0)
        current_done(c);
}

static bool on_row(void *context, const struct kern_row *row)
{
    struct step *s = context;
    struct kiln_err why = KILN_ERR_INIT;
    s->listed++;
    s->rows->after = row->id;
    if (begin_row(&s->rows->current, row, &why) == KILN_OK) {
        continue_row(s);
    } else {
        report_row(s, row, &why);
        current_done(&s->rows->current);
    }
    s->is_stopped = s->rc || s->rows->current.fd >= 0 || is_time_up(s);
    return !s->is_stopped;
}

enum kiln_code cache_rows_unpack(struct cache_rows *rows, const struct cache_listener *listener,
                                 struct kiln_err *err)
{
    struct step s = { .rows = rows,
                      .listener = listener,
                      .end_ns = clock_monotonic_ns() + CACHE_STEP_NS,
                      .err = err };
    if (rows->popped < rows->count)
        return KILN_OK;
    rows->popped = rows->count = 0;
    if (rows->current.fd >= 0)
        continue_row(&s);
    if (s.rc || rows->current.fd >= 0 || rows->is_over || is_time_up(&s))
        return s.rc;
    const struct kern_listing listing = {
        .after = rows->after, .count = ROWS_A_STEP - rows->count, .each = on_row, .context = &s
    };
    enum kiln_code rc = kern_db_each(rows->db, &listing, err);
    rows->is_over = !s.is_stopped && s.listed < listing.count;
    return s.rc ? s.rc : rc;
}
