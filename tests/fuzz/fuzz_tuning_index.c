/* SPDX-License-Identifier: MIT */
/* Tests look-ups in a damaged index file. Corrects the checksum of the header and, if the input
 * requests it, those of the first records, because otherwise no input would pass the checks and
 * reach the code behind them. */
#include "tests/fuzz/fuzz.h"

#include "engine/tuning/tuning_index.h"
#include "engine/tuning/tuning_index_format.h"
#include "tests/support/tuning_work.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_REPAIRED 16

static struct bytes text_within(struct bytes file, uint64_t offset, uint64_t size)
{
    bool fits = offset <= file.size && size <= file.size - offset;
    return fits ? bytes_of(file.data + offset, (size_t)size) : (struct bytes){ 0 };
}

static void repair_records(uint8_t *file, size_t size, const struct index_header *h)
{
    struct bytes all = bytes_of(file, size);
    uint64_t offset = le64toh(h->parts[PART_RECORDS].offset);
    for (unsigned i = 0; i < RECORDS_REPAIRED; i++, offset += sizeof(struct index_record)) {
        struct index_record record;
        struct bytes at = text_within(all, offset, sizeof(record));
        if (at.size == 0)
            return;
        memcpy(&record, at.data, sizeof(record));
        uint64_t length = (uint64_t)le32toh(record.key_size) + le32toh(record.value_size);
        struct bytes text =
            text_within(all, le64toh(h->parts[PART_TEXT].offset) + le64toh(record.text), length);
        struct bytes ids =
            text_within(all, le64toh(h->parts[PART_IDS].offset) + 8ull * le32toh(record.first_id),
                        8ull * le32toh(record.id_count));
        record.check = htole64(index_record_check(&record, text, ids));
        memcpy(file + offset, &record, sizeof(record));
    }
}

static void repair(uint8_t *file, size_t size, bool with_records)
{
    struct index_header h;
    if (size < sizeof(h))
        return;
    memcpy(&h, file, sizeof(h));
    if (with_records)
        repair_records(file, size, &h);
    memcpy(&h, file, sizeof(h)); /* repair_records may have overwritten the header */
    h.file_size = htole64(size);
    h.check = htole64(index_header_check(&h));
    memcpy(file, &h, sizeof(h));
}

static bool on_relative(void *context, const struct tuning_index_record *record)
{
    unsigned *count = context;
    fuzz_expect(record->key.size > 0, "a record has a key");
    return ++*count < 64;
}

static volatile uint64_t ids_read;

/* Reads a record. Does not check its digest: libFuzzer would see the comparison and insert the
 * expected value, so a match would prove nothing. */
static void read_record(struct tuning_index *index, uint64_t place)
{
    struct tuning_index_record record;
    struct bytes value;
    unsigned count = 0;
    if (!tuning_index_at(index, place, &record))
        return;
    for (size_t i = 0; i < record.id_count; i++)
        ids_read += record.ids[i];
    KILN_AUTO(mem) uint8_t *key = fuzz_copy(record.key);
    if (tuning_index_find(index, bytes_of(key, record.key.size), &value)) {
        for (size_t i = 0; i < value.size; i++)
            ids_read += value.data[i];
    }
    for (int f = 0; f < FAMILIES; f++)
        tuning_index_family(index, record.kin.families[f], on_relative, &count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(tuning_index) struct tuning_index *index = NULL;
    struct bytes value;
    struct reader r = reader_of(bytes_of(data, size));
    bool with_records = reader_u8(&r) & 1;
    struct bytes part = fuzz_rest(&r);
    KILN_AUTO(mem) uint8_t *file = fuzz_copy(part);
    repair(file, part.size, with_records);
    if (tuning_index_open(fuzz_file("find.tidx", bytes_of(file, part.size)), &index, &err))
        return 0;
    tuning_index_find(index, bytes_of_text("64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F"),
                      &value);
    bool is_sound = tuning_index_verify(index, &err) == KILN_OK;
    fuzz_expect(is_sound || err.text[0], "a reason why an index is not sound");
    for (uint64_t i = 0; i < tuning_index_count(index) && i < 64; i++)
        read_record(index, i);
    return 0;
}
