/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_record.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define LAYOUT 1
#define SUM_SIZE 8

static void write_u32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* Returns a checksum of the record's place and content. If a single byte changes, the checksum
 * always changes, because each step of FNV-1a is reversible. */
static uint64_t sum_of(const struct tuning_place *place, struct bytes body)
{
    struct bytes id = bytes_of_text(place->database_id), backend = bytes_of_text(place->backend);
    uint8_t fixed[24];
    write_u32(fixed, place->tier);
    write_u32(fixed + 4, place->uid);
    write_u32(fixed + 8, place->kind);
    write_u32(fixed + 12, (uint32_t)id.size);
    write_u32(fixed + 16, (uint32_t)backend.size);
    write_u32(fixed + 20, (uint32_t)place->key.size);
    uint64_t sum = bytes_hash(bytes_of(fixed, sizeof(fixed)), 0);
    sum = bytes_hash(backend, bytes_hash(id, sum));
    return bytes_hash(body, bytes_hash(place->key, sum));
}

static void put_sum(const struct tuning_place *place, struct buffer *to, size_t start)
{
    if (to->failed)
        return;
    size_t body = start + SUM_SIZE;
    uint64_t sum = sum_of(place, bytes_of(to->data + body, to->size - body));
    write_u32(to->data + start, (uint32_t)sum);
    write_u32(to->data + start + 4, (uint32_t)(sum >> 32));
}

/* Returns a reader of the bytes after the checksum. If the checksum does not match, the reader is
 * in its failed state. */
static struct reader body_of(const struct tuning_place *place, struct bytes packed)
{
    struct reader r = reader_of(packed);
    uint64_t sum = reader_u64(&r);
    if (!r.failed && sum != sum_of(place, bytes_of(r.at, reader_left(&r))))
        r.failed = true;
    if (!r.failed && reader_u8(&r) != LAYOUT)
        r.failed = true;
    return r;
}

static bool is_printable(const char *text, size_t max)
{
    size_t size = strnlen(text, max + 1);
    for (size_t i = 0; i < size; i++) {
        if (!isgraph((unsigned char)text[i]))
            return false;
    }
    return size <= max;
}

static bool is_name(const char *text) { return text[0] && is_printable(text, TUNING_NAME_MAX); }

static bool is_line(struct bytes text, size_t max)
{
    return text.size <= max && (text.size == 0 || (!memchr(text.data, '\n', text.size) &&
                                                   !memchr(text.data, '\0', text.size)));
}

static bool is_word(struct bytes text, size_t max) { return text.size > 0 && is_line(text, max); }

static bool names_are_sane(enum tuning_kind kind, const char *database_id, const char *backend)
{
    bool backend_fits = kind == TUNING_FIND ? is_name(backend)
                                            : !backend[0] || strcmp(backend, TUNING_BATCHNORM) == 0;
    return (kind == TUNING_FIND || kind == TUNING_PERF) && is_name(database_id) && backend_fits;
}

enum kiln_code tuning_place_check(const struct tuning_place *place, struct kiln_err *err)
{
    bool owned = place->tier == TUNING_TIER_USER && place->uid != TUNING_NOBODY;
    bool shared = place->tier == TUNING_TIER_HOST && place->uid == TUNING_NOBODY;
    if (!owned && !shared)
        return kiln_fail(err, KILN_INVALID,
                         "a measured record belongs to one user or to the host, not to tier %d and "
                         "user %u",
                         (int)place->tier, (unsigned)place->uid);
    if (!names_are_sane(place->kind, place->database_id, place->backend))
        return kiln_fail(err, KILN_INVALID,
                         "a database id and a backend have 1 to %u characters without blanks, and "
                         "only find records have a backend, or perf records of " TUNING_BATCHNORM,
                         TUNING_NAME_MAX);
    if (!is_word(place->key, TUNING_KEY_MAX))
        return kiln_fail(err, KILN_INVALID,
                         "the key of a record must be one line of 1 to %u bytes; this one has %zu",
                         TUNING_KEY_MAX, place->key.size);
    return KILN_OK;
}

static const char *known_text(const char *text) { return text ? text : ""; }

static bool origin_fits(const struct tuning_origin *o)
{
    const char *texts[] = { o->device_uuid, o->device, o->driver, o->toolchain, o->library };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strnlen(known_text(texts[i]), TUNING_ORIGIN_MAX + 1) > TUNING_ORIGIN_MAX)
            return false;
    }
    return true;
}

static bool is_amount(double value) { return isfinite(value) && value >= 0; }

static enum kiln_code check_row(const struct tuning_row *row, struct kiln_err *err)
{
    const struct tuning_measurement *m = &row->measured;
    if (!is_word(row->id, TUNING_ID_MAX))
        return kiln_fail(err, KILN_INVALID,
                         "the id of an entry must be one line of 1 to %u bytes; this one has %zu",
                         TUNING_ID_MAX, row->id.size);
    if (!is_line(row->values, TUNING_VALUES_MAX))
        return kiln_fail(
            err, KILN_INVALID,
            "the values of an entry must be one line of at most %u bytes; these have %zu",
            TUNING_VALUES_MAX, row->values.size);
    if (!is_amount(m->median_ms) || !is_amount(m->spread_ms))
        return kiln_fail(err, KILN_INVALID,
                         "a measured time must be a finite number and not negative");
    if (!origin_fits(&m->origin))
        return kiln_fail(err, KILN_INVALID,
                         "the texts of a measurement's origin may have at most %u bytes",
                         TUNING_ORIGIN_MAX);
    return KILN_OK;
}

static bool is_id_of_one_before(const struct tuning_row *rows, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (bytes_equal(rows[i].id, rows[at].id))
            return true;
    }
    return false;
}

/* Appends the text with its NUL, so that text_of can return a pointer into the content. */
static void put_text(struct buffer *to, const char *text)
{
    buffer_put_sized(to, bytes_of(known_text(text), strlen(known_text(text)) + 1));
}

static const char *text_of(struct reader *r, size_t max)
{
    struct bytes text = reader_sized(r);
    bool fits = !r->failed && text.size > 0 && text.size <= max + 1 &&
                memchr(text.data, '\0', text.size) == text.data + text.size - 1;
    r->failed |= !fits;
    return fits ? (const char *)text.data : "";
}

static void put_double(struct buffer *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    buffer_put_u64(to, bits);
}

static double double_of(struct reader *r)
{
    uint64_t bits = reader_u64(r);
    double value;
    memcpy(&value, &bits, sizeof(value));
    r->failed |= !is_amount(value);
    return value;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(known_text(a), known_text(b)) == 0;
}

static bool same_origin(const struct tuning_origin *a, const struct tuning_origin *b)
{
    return a->clock_mhz == b->clock_mhz && same_text(a->device_uuid, b->device_uuid) &&
           same_text(a->device, b->device) && same_text(a->driver, b->driver) &&
           same_text(a->toolchain, b->toolchain) && same_text(a->library, b->library);
}

static void put_origin(struct buffer *to, const struct tuning_origin *o)
{
    put_text(to, o->device_uuid);
    put_text(to, o->device);
    put_text(to, o->driver);
    put_text(to, o->toolchain);
    put_text(to, o->library);
    buffer_put_u32(to, o->clock_mhz);
}

static struct tuning_origin origin_of(struct reader *r)
{
    struct tuning_origin o = { 0 };
    o.device_uuid = text_of(r, TUNING_ORIGIN_MAX);
    o.device = text_of(r, TUNING_ORIGIN_MAX);
    o.driver = text_of(r, TUNING_ORIGIN_MAX);
    o.toolchain = text_of(r, TUNING_ORIGIN_MAX);
    o.library = text_of(r, TUNING_ORIGIN_MAX);
    o.clock_mhz = reader_u32(r);
    return o;
}

/* Stores the row. Stores its origin only if it differs from that of |before|, the row before it,
 * which is rare. */
static void put_row(struct buffer *to, const struct tuning_row *row,
                    const struct tuning_row *before)
{
    const struct tuning_measurement *m = &row->measured;
    bool is_new = !before || !same_origin(&before->measured.origin, &m->origin);
    buffer_put_u8(to, is_new);
    if (is_new)
        put_origin(to, &m->origin);
    buffer_put_u32(to, m->samples);
    put_double(to, m->median_ms);
    put_double(to, m->spread_ms);
    buffer_put_u64(to, m->measured_at);
    buffer_put_u32(to, m->uid);
    buffer_put_sized(to, row->id);
    buffer_put_sized(to, row->values);
}

static struct tuning_row row_of(struct reader *r, const struct tuning_place *place,
                                const struct tuning_row *before)
{
    struct tuning_row row = { .place = *place };
    bool is_new = reader_u8(r) != 0;
    if (is_new)
        row.measured.origin = origin_of(r);
    else if (before)
        row.measured.origin = before->measured.origin;
    else
        r->failed = true;
    row.measured.samples = reader_u32(r);
    row.measured.median_ms = double_of(r);
    row.measured.spread_ms = double_of(r);
    row.measured.measured_at = reader_u64(r);
    row.measured.uid = reader_u32(r);
    row.id = reader_sized(r);
    row.values = reader_sized(r);
    r->failed |= !is_word(row.id, TUNING_ID_MAX) || !is_line(row.values, TUNING_VALUES_MAX);
    return row;
}

static enum kiln_code check_rows(const struct tuning_row *rows, size_t count, struct kiln_err *err)
{
    if (count == 0 || count > TUNING_ENTRIES_MAX)
        return kiln_fail(err, KILN_INVALID, "a record must have 1 to %u entries; this one has %zu",
                         TUNING_ENTRIES_MAX, count);
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < count; i++) {
        rc = check_row(&rows[i], err);
        if (!rc && is_id_of_one_before(rows, i))
            rc = kiln_fail(err, KILN_INVALID, "two entries of a record have the id '%.*s'",
                           (int)(rows[i].id.size < 100 ? rows[i].id.size : 100),
                           (const char *)rows[i].id.data);
    }
    return rc;
}

enum kiln_code tuning_record_pack(const struct tuning_place *place, const struct tuning_row *rows,
                                  size_t count, struct buffer *to, struct kiln_err *err)
{
    size_t start = to->size;
    enum kiln_code rc = check_rows(rows, count, err);
    if (rc)
        return rc;
    buffer_put_u64(to, 0);
    buffer_put_u8(to, LAYOUT);
    buffer_put_u16(to, (uint16_t)count);
    for (size_t i = 0; i < count; i++)
        put_row(to, &rows[i], i > 0 ? &rows[i - 1] : NULL);
    put_sum(place, to, start);
    return to->failed ? kiln_fail(err, KILN_NO_MEMORY, "cannot store a record: out of memory")
                      : KILN_OK;
}

bool tuning_record_unpack(const struct tuning_place *place, struct bytes packed,
                          struct tuning_row ret_rows[TUNING_ENTRIES_MAX], size_t *ret_count)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (tuning_place_check(place, &ignored) != KILN_OK)
        return false;
    struct reader r = body_of(place, packed);
    size_t count = reader_u16(&r);
    if (r.failed || count == 0 || count > TUNING_ENTRIES_MAX)
        return false;
    for (size_t i = 0; i < count && !r.failed; i++) {
        ret_rows[i] = row_of(&r, place, i > 0 ? &ret_rows[i - 1] : NULL);
        r.failed |= is_id_of_one_before(ret_rows, i);
    }
    if (r.failed || reader_left(&r) > 0)
        return false;
    *ret_count = count;
    return true;
}

/* Rejects the name of an index file if the name leads to another directory. */
static bool is_file_name(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/') &&
           is_printable(name, TUNING_FILE_NAME_MAX);
}

enum kiln_code tuning_system_check(const struct tuning_system_file *file, struct kiln_err *err)
{
    if (!names_are_sane(file->kind, file->database_id, file->backend))
        return kiln_fail(
            err, KILN_INVALID,
            "a database id and a backend have 1 to %u characters without blanks, and "
            "only find databases have a backend, or perf databases of " TUNING_BATCHNORM,
            TUNING_NAME_MAX);
    if (!is_file_name(file->index_file))
        return kiln_fail(err, KILN_INVALID, "'%.100s' is not a valid file name of an index",
                         file->index_file);
    if (!is_word(bytes_of_text(file->source), TUNING_FILE_NAME_MAX))
        return kiln_fail(err, KILN_INVALID, "the name of an imported file must have 1 to %u bytes",
                         TUNING_FILE_NAME_MAX);
    return KILN_OK;
}

static struct tuning_place place_of_system(const struct tuning_system_file *file)
{
    return (struct tuning_place){ .tier = TUNING_TIER_SYSTEM,
                                  .uid = TUNING_NOBODY,
                                  .kind = file->kind,
                                  .database_id = file->database_id,
                                  .backend = file->backend };
}

void tuning_system_pack(const struct tuning_system_file *file, struct buffer *to)
{
    struct tuning_place place = place_of_system(file);
    size_t start = to->size;
    buffer_put_u64(to, 0);
    buffer_put_u8(to, LAYOUT);
    put_text(to, file->source);
    put_text(to, file->index_file);
    buffer_put(to, file->digest.bytes, DIGEST_SIZE);
    buffer_put_u64(to, file->records);
    buffer_put_u64(to, file->entries);
    buffer_put_u64(to, file->rejected);
    buffer_put_u64(to, file->imported_at);
    buffer_put_u32(to, file->uid);
    put_sum(&place, to, start);
}

bool tuning_system_unpack(struct tuning_system_file *file, struct bytes packed)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_place place = place_of_system(file);
    struct reader r = body_of(&place, packed);
    file->source = text_of(&r, TUNING_FILE_NAME_MAX);
    file->index_file = text_of(&r, TUNING_FILE_NAME_MAX);
    struct bytes digest = reader_take(&r, DIGEST_SIZE);
    if (r.failed)
        return false;
    memcpy(file->digest.bytes, digest.data, DIGEST_SIZE);
    file->records = reader_u64(&r);
    file->entries = reader_u64(&r);
    file->rejected = reader_u64(&r);
    file->imported_at = reader_u64(&r);
    file->uid = reader_u32(&r);
    return !r.failed && reader_left(&r) == 0 && tuning_system_check(file, &ignored) == KILN_OK;
}
