/* SPDX-License-Identifier: MIT */
/* Tests packed rows of tuning.db. If a row with the right checksum unpacks, the result must pack to
 * the same bytes. */
#include "tests/fuzz/fuzz.h"

#include "engine/digest/checksum.h"
#include "engine/tuning/tuning_record.h"

#include <stdlib.h>
#include <string.h>

#define PACKED_MAX (8u << 20)

static void put_number(uint8_t *at, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* Computes the checksum of a row as described in docs/formats/tuning-db.md. */
static uint64_t sum_of(const struct tuning_place *place, struct bytes body)
{
    struct bytes id = bytes_of_text(place->database_id), backend = bytes_of_text(place->backend);
    uint8_t fixed[24];
    put_number(fixed, place->tier, 4);
    put_number(fixed + 4, place->uid, 4);
    put_number(fixed + 8, place->kind, 4);
    put_number(fixed + 12, id.size, 4);
    put_number(fixed + 16, backend.size, 4);
    put_number(fixed + 20, place->key.size, 4);
    uint64_t sum = bytes_hash(bytes_of(fixed, sizeof(fixed)), 0);
    sum = bytes_hash(place->key, bytes_hash(backend, bytes_hash(id, sum)));
    return bytes_hash(body, sum);
}

static struct bytes repair(const struct tuning_place *place, uint8_t *packed, size_t size)
{
    if (size > 8)
        put_number(packed, sum_of(place, bytes_of(packed + 8, size - 8)), 8);
    return bytes_of(packed, size);
}

static void check_record(uint8_t *packed, size_t size)
{
    static struct tuning_row rows[TUNING_ENTRIES_MAX];
    const struct tuning_place place = { .tier = TUNING_TIER_HOST,
                                        .uid = TUNING_NOBODY,
                                        .kind = TUNING_FIND,
                                        .database_id = "gfx90a68",
                                        .backend = "HIP",
                                        .key = bytes_of_text("a key") };
    struct kiln_err err = KILN_ERR_INIT;
    size_t count = 0, again = 0;
    if (!tuning_record_unpack(&place, repair(&place, packed, size), rows, &count))
        return;
    BUFFER_AUTO struct buffer to;
    buffer_init(&to, PACKED_MAX);
    fuzz_expect(tuning_record_pack(&place, rows, count, &to, &err) == KILN_OK,
                "what was unpacked can be packed");
    fuzz_expect(tuning_record_unpack(&place, buffer_view(&to), rows, &again) && again == count,
                "and unpacked again");
}

static void check_system(uint8_t *packed, size_t size)
{
    const struct tuning_place place = { .tier = TUNING_TIER_SYSTEM,
                                        .uid = TUNING_NOBODY,
                                        .kind = TUNING_PERF,
                                        .database_id = "gfx90a68",
                                        .backend = "" };
    struct tuning_system_file file = { .kind = place.kind,
                                       .database_id = place.database_id,
                                       .backend = place.backend };
    if (!tuning_system_unpack(&file, repair(&place, packed, size)))
        return;
    BUFFER_AUTO struct buffer to;
    buffer_init(&to, PACKED_MAX);
    tuning_system_pack(&file, &to);
    fuzz_expect(bytes_equal(buffer_view(&to), bytes_of(packed, size)), "it is packed to the same");
    fuzz_expect(!strchr(file.index_file, '/'), "an index is in tuning.db's directory");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    bool is_system = reader_u8(&r) & 1;
    struct bytes part = fuzz_rest(&r);
    uint8_t *packed = fuzz_copy(part);
    if (is_system)
        check_system(packed, part.size);
    else
        check_record(packed, part.size);
    free(packed);
    return 0;
}
