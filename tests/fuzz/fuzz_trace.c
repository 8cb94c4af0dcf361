/* SPDX-License-Identifier: MIT */
/* Tests the parser of trace lines. If a line is valid, it is written again, and the written line
 * must have the same fields. */
#include "tests/fuzz/fuzz.h"

#include "common/base/trace_text.h"

#include <stdlib.h>
#include <string.h>

static bool is_same(const struct trace_line *a, const struct trace_line *b)
{
    return a->kind == b->kind && a->tier == b->tier && a->start_us == b->start_us &&
           a->wanted_us == b->wanted_us && a->waited_us == b->waited_us &&
           a->compile_us == b->compile_us && a->pid == b->pid && bytes_equal(a->host, b->host) &&
           bytes_equal(a->target, b->target) && bytes_equal(a->database_id, b->database_id) &&
           bytes_equal(a->toolchain, b->toolchain) && bytes_equal(a->solver, b->solver) &&
           bytes_equal(a->key, b->key) && bytes_equal(a->rest, b->rest);
}

static void check_line(struct bytes text)
{
    BUFFER_AUTO struct buffer written;
    struct trace_line line, again;
    buffer_init(&written, TRACE_LINE_MAX);
    if (trace_line_parse(text, &line) != TRACE_VALID)
        return;
    fuzz_expect(trace_line_write(&line, &written), "a valid line can be written");
    fuzz_expect(written.size && written.data[written.size - 1] == '\n', "with its line end");
    fuzz_expect(trace_line_parse(bytes_of(written.data, written.size - 1), &again) == TRACE_VALID,
                "and read again");
    fuzz_expect(is_same(&line, &again), "with the same fields");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = fuzz_copy(bytes_of(data, size));
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(copy + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (copy + at)) : size - at;
        check_line(bytes_of(copy + at, length));
        at += length + 1;
    }
    free(copy);
    return 0;
}
