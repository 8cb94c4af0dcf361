/* SPDX-License-Identifier: MIT */
/* Tests the readers of PerfDb lines and of FindDb lines in both dialects. Every record that they
 * report must be well formed. */
#include "tests/fuzz/fuzz.h"

#include "engine/miopen/tuning_file.h"
#include "tests/support/whole_tuning_file.h"

#include <stdlib.h>

struct reading {
    enum tuning_kind kind;
    uint64_t last_line;
};

static void check_entry(enum tuning_kind kind, const struct tuning_entry *entry)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_entry again;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 3 * TUNING_VALUE_MAX);
    if (tuning_entry_check(kind, entry, 0, &err))
        return;
    if (kind == TUNING_FIND)
        tuning_entry_write_find(&text, entry->dialect, entry);
    else
        tuning_entry_write_perf(&text, entry->solver, entry->params);
    struct bytes left = buffer_view(&text);
    fuzz_expect(tuning_entry_next(kind, &left, &again, &err) == KILN_OK && left.size == 0,
                "an entry is one entry when it is written");
    fuzz_expect(bytes_equal(entry->solver, again.solver), "of the same solver");
    fuzz_expect(entry->workspace == again.workspace, "with the same workspace");
}

static bool on_record(void *context, const struct tuning_record *record)
{
    struct reading *reading = context;
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_entry entry;
    struct bytes value = record->value;
    size_t count = 0;
    fuzz_expect(record->key.size > 0 && record->key.size <= TUNING_KEY_MAX, "a key of its length");
    fuzz_expect(record->line > reading->last_line, "records come line by line");
    reading->last_line = record->line;
    while (tuning_entry_next(reading->kind, &value, &entry, &err) == KILN_OK) {
        check_entry(reading->kind, &entry);
        count++;
    }
    fuzz_expect(value.size == 0 && count == record->entry_count, "as many entries as it says");
    return true;
}

static bool on_bad(void *context, uint64_t line, const char *why)
{
    (void)context;
    fuzz_expect(line > 0 && why && *why, "a bad line is reported with its number and a reason");
    fuzz_expect(tuning_is_printable(bytes_of_text(why)), "which can be printed");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = reader_of(bytes_of(data, size));
    struct reading reading = { .kind = reader_u8(&r) & 1 ? TUNING_PERF : TUNING_FIND };
    struct bytes text = fuzz_rest(&r);
    struct kiln_err err = KILN_ERR_INIT;
    const struct tuning_reader_events events = { .record = on_record,
                                                 .bad = on_bad,
                                                 .context = &reading };
    uint8_t *copy = fuzz_copy(text);
    enum kiln_code rc = tuning_text_read(reading.kind, bytes_of(copy, text.size), &events, &err);
    fuzz_expect(rc == KILN_OK, "a text can be read whatever it holds");
    free(copy);
    return 0;
}
