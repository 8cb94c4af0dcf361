/* SPDX-License-Identifier: MIT */
/* Tests the reader of untrusted PerfDb files. Every record that it reports must be well formed. */
#include "tests/fuzz/fuzz.h"

#include "engine/miopen/tuning_file.h"
#include "tests/support/whole_tuning_file.h"

#include <string.h>

static bool on_record(void *context, const struct tuning_record *record)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct bytes value = record->value;
    struct tuning_entry entry;
    size_t count = 0;
    (void)context;
    fuzz_expect(record->key.size > 0 && record->key.size <= TUNING_KEY_MAX, "a key of its length");
    while (tuning_entry_next(TUNING_PERF, &value, &entry, &err) == KILN_OK)
        count++;
    fuzz_expect(value.size == 0 && count == record->entry_count, "as many entries as it says");
    fuzz_expect(record->id_count == count, "and as many ids");
    return true;
}

static bool on_bad(void *context, uint64_t line, const char *why)
{
    (void)context;
    (void)line;
    fuzz_expect(why && tuning_is_printable(bytes_of_text(why)), "a reason that can be printed");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    const struct tuning_reader_events events = { .record = on_record, .bad = on_bad };
    (void)!perf_db_read(fuzz_file("gfx90a68.db", bytes_of(data, size)), &events, &err);
    return 0;
}
