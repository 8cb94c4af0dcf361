/* SPDX-License-Identifier: MIT */
#include "engine/tuning/record.h"

#include "common/base/array.h"

#include <string.h>

static size_t text_size(const char *text) { return text ? strlen(text) + 1 : 1; }

static size_t origin_size(const struct tuning_origin *o)
{
    return text_size(o->device_uuid) + text_size(o->device) + text_size(o->driver) +
           text_size(o->toolchain) + text_size(o->library);
}

static const char *copy_text(char **to, const char *text)
{
    char *at = *to;
    size_t size = text_size(text);
    if (text)
        memcpy(at, text, size);
    else
        *at = '\0';
    *to += size;
    return at;
}

static struct bytes copy_bytes(char **to, struct bytes bytes)
{
    char *at = *to;
    if (bytes.size > 0)
        memcpy(at, bytes.data, bytes.size);
    *to += bytes.size;
    return bytes_of(at, bytes.size);
}

static struct tuning_origin copy_origin(char **to, const struct tuning_origin *o)
{
    return (struct tuning_origin){ .device_uuid = copy_text(to, o->device_uuid),
                                   .device = copy_text(to, o->device),
                                   .driver = copy_text(to, o->driver),
                                   .toolchain = copy_text(to, o->toolchain),
                                   .library = copy_text(to, o->library),
                                   .clock_mhz = o->clock_mhz };
}

struct record *record_create(const struct tuning_place *place, const struct tuning_row *rows,
                             size_t count)
{
    size_t size = text_size(place->database_id) + text_size(place->backend) + place->key.size;
    for (size_t i = 0; i < count; i++)
        size += rows[i].id.size + rows[i].values.size + origin_size(&rows[i].measured.origin);
    size += sizeof(struct record) + count * sizeof(struct tuning_row);
    struct record *record = malloc(size);
    if (!record)
        return NULL;
    record->bytes = size;
    record->rows = (struct tuning_row *)(record + 1);
    record->count = count;
    record->place = *place;
    char *to = (char *)(record->rows + count);
    record->place.database_id = copy_text(&to, place->database_id);
    record->place.backend = copy_text(&to, place->backend);
    record->place.key = copy_bytes(&to, place->key);
    for (size_t i = 0; i < count; i++) {
        struct tuning_row *row = &record->rows[i];
        *row = rows[i];
        row->place = record->place;
        row->id = copy_bytes(&to, rows[i].id);
        row->values = copy_bytes(&to, rows[i].values);
        row->measured.origin = copy_origin(&to, &rows[i].measured.origin);
    }
    return record;
}

void record_destroy(struct record *record) { free(record); }

enum kiln_code record_list_add(struct record_list *list, struct record *record,
                               struct kiln_err *err)
{
    if (!record || !ARRAY_RESERVE(list->records, list->count, list->max, 64)) {
        record_destroy(record);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep a tuning record: out of memory");
    }
    list->records[list->count++] = record;
    list->bytes += sizeof(struct record *) + record->bytes;
    return KILN_OK;
}

void record_list_done(struct record_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        record_destroy(list->records[i]);
    free(list->records);
    *list = (struct record_list){ 0 };
}
