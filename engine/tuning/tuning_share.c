/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_share.h"

#include "engine/tuning/tuning_record.h"

#include <endian.h>
#include <string.h>

#define FORMAT "kiln-fleet-tuning-1"

bool tuning_row_is_of_fleet(const struct tuning_row *row)
{
    const char *library = row->measured.origin.library;
    return library && strncmp(library, TUNING_FLEET_ORIGIN, strlen(TUNING_FLEET_ORIGIN)) == 0;
}

void tuning_share_begin(struct buffer *block, const char *series)
{
    buffer_clear(block);
    buffer_put_sized(block, bytes_of_text(FORMAT));
    buffer_put_u64(block, 0);
    buffer_put_sized(block, bytes_of_text(series));
}

void tuning_share_set_time(struct buffer *block, uint64_t time)
{
    const uint64_t stored = htole64(time);
    memcpy(block->data + sizeof(uint32_t) + strlen(FORMAT), &stored, sizeof(stored));
}

static size_t pick_own(const struct tuning_row *rows, size_t count, struct tuning_row *ret_own)
{
    size_t own = 0;
    for (size_t i = 0; i < count; i++) {
        if (tuning_row_is_of_fleet(&rows[i]))
            continue;
        ret_own[own] = rows[i];
        ret_own[own++].measured.uid = 0;
    }
    return own;
}

enum kiln_code tuning_share_add(struct buffer *block, const struct tuning_held *record,
                                size_t *ret_entries, struct kiln_err *err)
{
    const struct tuning_place *place = &record->place;
    KILN_AUTO(mem) struct tuning_row *own = calloc(record->row_count + 1, sizeof(*own));
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, TUNING_CONTENT_MAX);
    if (!own)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot share a record: out of memory");
    *ret_entries = pick_own(record->rows, record->row_count, own);
    if (*ret_entries == 0)
        return KILN_OK;
    enum kiln_code rc = tuning_record_pack(place, own, *ret_entries, &content, err);
    if (rc)
        return rc;
    buffer_put_u8(block, (uint8_t)place->kind);
    buffer_put_sized(block, bytes_of_text(place->backend));
    buffer_put_sized(block, place->key);
    buffer_put_sized(block, buffer_view(&content));
    return block->failed ? kiln_fail(err, KILN_NO_MEMORY, "cannot share a record: out of memory")
                         : KILN_OK;
}

bool tuning_share_open(struct tuning_share *share, struct bytes block, const char *database_id)
{
    share->database_id = database_id;
    share->left = reader_of(block);
    bool is_block = bytes_equal_text(reader_sized(&share->left), FORMAT);
    (void)reader_u64(&share->left);
    (void)reader_sized(&share->left);
    return is_block && !share->left.failed;
}

static bool take_backend(struct tuning_share *share, struct bytes backend)
{
    bool fits = backend.size < sizeof(share->backend);
    size_t size = fits ? backend.size : 0;
    if (size > 0)
        memcpy(share->backend, backend.data, size);
    share->backend[size] = '\0';
    return fits && strlen(share->backend) == size;
}

enum tuning_share_step tuning_share_next(struct tuning_share *share)
{
    struct reader *r = &share->left;
    if (!r->failed && reader_left(r) == 0)
        return TUNING_SHARE_END;
    uint8_t kind = reader_u8(r);
    bool fits = take_backend(share, reader_sized(r));
    share->place = (struct tuning_place){ .tier = TUNING_TIER_HOST,
                                          .uid = TUNING_NOBODY,
                                          .kind = kind == TUNING_PERF ? TUNING_PERF : TUNING_FIND,
                                          .database_id = share->database_id,
                                          .backend = share->backend,
                                          .key = reader_sized(r) };
    struct bytes content = reader_sized(r);
    if (r->failed || !fits || kind > TUNING_PERF ||
        !tuning_record_unpack(&share->place, content, share->rows, &share->count))
        return TUNING_SHARE_DAMAGED;
    for (size_t i = 0; i < share->count; i++) {
        if (tuning_row_is_of_fleet(&share->rows[i]))
            return TUNING_SHARE_DAMAGED;
    }
    return TUNING_SHARE_RECORD;
}
