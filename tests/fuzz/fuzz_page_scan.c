/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz.h"

#include "engine/db/page_scan.h"

#include <stdlib.h>

#define RECORD_MAX (1u << 20)

struct reading {
    struct page_scan *scan;
    struct buffer record;
    uint64_t read;
};

static bool on_cell(void *context, const struct page_cell *cell)
{
    struct reading *reading = context;
    struct page_value values[PAGE_COLUMNS_MAX];
    fuzz_expect(cell->columns <= PAGE_COLUMNS_MAX, "no more columns than there is room for");
    buffer_clear(&reading->record);
    if (!page_scan_read(reading->scan, cell, &reading->record, values))
        return true;
    struct bytes all = buffer_view(&reading->record);
    reading->read += all.size;
    for (unsigned i = 0; i < cell->columns; i++) {
        struct bytes part = values[i].bytes;
        if (cell->kinds[i] != PAGE_BLOB && cell->kinds[i] != PAGE_TEXT)
            continue;
        fuzz_expect(part.size == 0 || (part.data >= all.data &&
                                       part.size <= (size_t)(all.data + all.size - part.data)),
                    "a value lies within its record");
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(page_scan) struct page_scan *scan = NULL;
    KILN_AUTO(fd) int fd = fuzz_memfd(bytes_of(data, size), false);
    if (page_scan_open(fd, &scan, &err))
        return 0;
    struct reading reading = { .scan = scan };
    buffer_init(&reading.record, RECORD_MAX);
    page_scan_each(scan, on_cell, &reading);
    page_scan_each(scan, on_cell, &reading);
    fuzz_expect(reading.read <= 64 * ((uint64_t)size + 65536), "no more than some times the file");
    buffer_done(&reading.record);
    return 0;
}
