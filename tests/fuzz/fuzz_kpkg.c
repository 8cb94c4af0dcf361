/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/fuzz.h"

#include "engine/package/package.h"

#include <stdlib.h>

#define OBJECT_MAX (16u << 20)
#define ROWS_MAX 16

struct rows {
    struct package *package;
    struct digest keys[ROWS_MAX];
    struct buffer names[ROWS_MAX], args[ROWS_MAX];
    size_t count;
};

static bool on_row(void *context, const struct package_row *row)
{
    struct rows *rows = context;
    size_t at = rows->count++;
    rows->keys[at] = row->key;
    buffer_init(&rows->names[at], OBJECT_MAX);
    buffer_init(&rows->args[at], OBJECT_MAX);
    buffer_put(&rows->names[at], row->name.data, row->name.size);
    buffer_put(&rows->args[at], row->args.data, row->args.size);
    return rows->count < ROWS_MAX;
}

static void look_up(struct rows *rows, size_t at)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer raw;
    bool damaged = false;
    buffer_init(&raw, OBJECT_MAX);
    (void)!package_find_named(
        rows->package,
        &(struct kern_name){ buffer_view(&rows->names[at]), buffer_view(&rows->args[at]) }, &raw,
        &damaged, &err);
    (void)!package_find_key(rows->package, &rows->keys[at], &raw, &damaged, &err);
    package_shun(rows->package, &(struct kern_name){ buffer_view(&rows->names[at]),
                                                     buffer_view(&rows->args[at]) });
    buffer_done(&rows->names[at]);
    buffer_done(&rows->args[at]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(package) struct package *package = NULL;
    struct reader r = reader_of(bytes_of(data, size));
    bool trusted = reader_u8(&r) & 1;
    struct package_options options = { .path = fuzz_file("gfx90a68.kpkg", fuzz_rest(&r)),
                                       .readers = 1,
                                       .trusted = trusted };
    struct package_report report;
    uint64_t count = 0;
    if (package_open(&options, &package, &err))
        return 0;
    struct rows rows = { .package = package };
    (void)!package_rows(package, &count, &err);
    (void)!package_each(package, &(struct package_listing){ 0, ROWS_MAX, on_row, &rows }, &err);
    for (size_t i = 0; i < rows.count; i++)
        look_up(&rows, i);
    if (package_check(package, NULL, NULL, &report, &err) == KILN_OK)
        fuzz_expect(report.good + report.damaged >= report.rows, "every row is good or damaged");
    return 0;
}
