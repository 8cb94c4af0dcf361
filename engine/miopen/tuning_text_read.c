/* SPDX-License-Identifier: MIT */
#include "engine/miopen/tuning_file.h"
#include "engine/miopen/tuning_ids.h"
#include "engine/miopen/tuning_keys.h"
#include "engine/miopen/tuning_reader.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>

#define PROGRESS_EACH (1u << 20)
#define RECORD_USUAL 256u

struct tuning_text_reader {
    enum tuning_kind kind;
    const struct tuning_reader_events *events;
    struct bytes text;
    const uint8_t *at, *reported;
    uint64_t line;
    struct tuning_keys keys;
    struct buffer value; /* the current record's value without repeated ids; empty if no id is
                          * repeated */
    struct tuning_ids ids;
};

static enum kiln_code report_bad(const struct tuning_text_reader *r, const char *why)
{
    return r->events->bad(r->events->context, r->line, why) ? KILN_OK : KILN_CANCELLED;
}

static enum kiln_code skip_entry(struct tuning_text_reader *r, struct bytes value, size_t offset,
                                 struct bytes id)
{
    char why[160];
    if (r->value.size == 0)
        buffer_put(&r->value, value.data, offset - 1);
    snprintf(why, sizeof(why), "'%.*s' is repeated in the record; the first counts",
             id.size > 80 ? 80 : (int)id.size, (const char *)id.data);
    return report_bad(r, why);
}

static void copy_entry(struct tuning_text_reader *r, struct bytes entry)
{
    if (r->value.size == 0)
        return;
    buffer_put_u8(&r->value, ';');
    buffer_put(&r->value, entry.data, entry.size);
}

static enum kiln_code read_entries(struct tuning_text_reader *r, struct bytes value,
                                   struct kiln_err *err)
{
    struct bytes left = value;
    struct tuning_entry e;
    enum kiln_code rc = KILN_OK;
    tuning_ids_clear(&r->ids);
    r->value.size = 0;
    for (;;) {
        size_t offset = value.size - left.size;
        rc = tuning_entry_next(r->kind, &left, &e, err);
        if (rc)
            break;
        switch (tuning_ids_add(&r->ids, e.id)) {
        case TUNING_ID_IS_NEW:
            copy_entry(r, bytes_of(e.id.data, e.id.size + 1 + e.values.size));
            break;
        case TUNING_ID_IS_KNOWN: rc = skip_entry(r, value, offset, e.id); break;
        case TUNING_IDS_ARE_FULL:
            return kiln_fail(err, KILN_INVALID, "the record has more than %u entries",
                             TUNING_ENTRIES_MAX);
        }
        if (rc)
            break;
    }
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

static enum kiln_code check_line(struct bytes line, struct bytes *ret_key, struct bytes *ret_value,
                                 struct kiln_err *err)
{
    if (line.size > TUNING_KEY_MAX + 1 + TUNING_VALUE_MAX)
        return kiln_fail(err, KILN_INVALID, "the line has %zu bytes; a record has at most %u",
                         line.size, TUNING_KEY_MAX + 1 + TUNING_VALUE_MAX);
    const uint8_t *equals = memchr(line.data, '=', line.size);
    if (!equals)
        return kiln_fail(err, KILN_INVALID, "there is no '=' after the key");
    struct bytes key = bytes_of(line.data, (size_t)(equals - line.data));
    struct bytes value = bytes_of(equals + 1, line.size - key.size - 1);
    enum kiln_code rc = tuning_word_check("key", key, /* commas= */ true, err);
    if (!rc && value.size == 0)
        rc = kiln_fail(err, KILN_INVALID, "there is nothing after the key");
    if (!rc && value.size > TUNING_VALUE_MAX)
        rc = kiln_fail(err, KILN_INVALID, "the record has %zu bytes after its key; the limit is %u",
                       value.size, TUNING_VALUE_MAX);
    *ret_key = key;
    *ret_value = value;
    return rc;
}

static enum kiln_code check_key(struct tuning_text_reader *r, struct bytes key,
                                struct kiln_err *err)
{
    bool known = false;
    enum kiln_code rc = tuning_keys_add(&r->keys, r->text.data, key, &known, err);
    if (!rc && known)
        rc = kiln_fail(err, KILN_INVALID, "the key '%.*s' is repeated; the first record counts",
                       key.size > 120 ? 120 : (int)key.size, (const char *)key.data);
    return rc;
}

static enum kiln_code emit_record(struct tuning_text_reader *r, struct bytes raw, struct bytes key,
                                  struct bytes value, struct kiln_err *err)
{
    if (r->value.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a tuning file");
    struct tuning_record record = { .key = key,
                                    .value = r->value.size ? buffer_view(&r->value) : value,
                                    .entry_count = r->ids.count,
                                    .line = r->line,
                                    .raw = raw };
    return r->events->record(r->events->context, &record) ? KILN_OK : KILN_CANCELLED;
}

/* Remembers the key only of a valid record, so that a later valid record with the same key
 * counts. */
static enum kiln_code read_line(struct tuning_text_reader *r, struct bytes raw, struct bytes line,
                                struct kiln_err *err)
{
    struct bytes key = { 0 }, value = { 0 };
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = check_line(line, &key, &value, &why);
    if (!rc)
        rc = read_entries(r, value, &why);
    if (!rc)
        rc = check_key(r, key, &why);
    if (rc == KILN_INVALID)
        return report_bad(r, why.text);
    if (rc == KILN_NO_MEMORY)
        *err = why;
    return rc ? rc : emit_record(r, raw, key, value, err);
}

static struct bytes skip_byte_order_mark(struct bytes line)
{
    bool marked = line.size >= 3 && memcmp(line.data, "\xef\xbb\xbf", 3) == 0;
    return marked ? bytes_of(line.data + 3, line.size - 3) : line;
}

static enum kiln_code read_next_line(struct tuning_text_reader *r, struct kiln_err *err)
{
    const uint8_t *end = r->text.data + r->text.size;
    const uint8_t *stop = memchr(r->at, '\n', (size_t)(end - r->at));
    struct bytes raw = bytes_of(r->at, (size_t)((stop ? stop : end) - r->at)), line = raw;
    enum kiln_code rc = KILN_OK;
    r->at = stop ? stop + 1 : end;
    if (++r->line == 1)
        line = skip_byte_order_mark(line);
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size)
        rc = read_line(r, raw, line, err);
    if (!rc && r->events->progress && (r->at == end || r->at - r->reported >= PROGRESS_EACH)) {
        r->events->progress(r->events->context, (uint64_t)(r->at - r->text.data), r->text.size);
        r->reported = r->at;
    }
    return rc;
}

enum kiln_code tuning_text_reader_step(struct tuning_text_reader *r,
                                       const struct tuning_reader_events *events, uint64_t end_ns,
                                       bool *ret_more, struct kiln_err *err)
{
    const uint8_t *begin = r->at, *end = r->text.data + r->text.size;
    enum kiln_code rc = KILN_OK;
    r->events = events;
    while (!rc && r->at < end) {
        rc = read_next_line(r, err);
        if (r->at - begin >= TUNING_READ_BYTES || clock_monotonic_ns() >= end_ns)
            break;
    }
    *ret_more = !rc && r->at < end;
    return rc;
}

uint64_t tuning_text_reader_bytes(const struct tuning_text_reader *r)
{
    return sizeof(*r) + tuning_keys_bytes(&r->keys) + r->value.size;
}

void tuning_text_reader_destroy(struct tuning_text_reader *r)
{
    if (!r)
        return;
    tuning_keys_done(&r->keys);
    buffer_done(&r->value);
    free(r);
}

enum kiln_code tuning_text_reader_create(enum tuning_kind kind, struct bytes text,
                                         struct tuning_text_reader **ret_reader,
                                         struct kiln_err *err)
{
    KILN_AUTO(tuning_text_reader) struct tuning_text_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a tuning file");
    r->kind = kind;
    r->text = text;
    r->at = r->reported = text.data;
    buffer_init(&r->value, TUNING_VALUE_MAX);
    enum kiln_code rc = tuning_keys_init(&r->keys, text.size / RECORD_USUAL, err);
    if (!rc)
        rc = tuning_ids_init(&r->ids, err);
    if (!rc)
        *ret_reader = KILN_TAKE(r);
    return rc;
}
