/* SPDX-License-Identifier: MIT */
/* Tests the parser of MIOpenDriver command lines. If a line is parsed, the problem is written as a
 * new line, which must parse to the same problem. */
#include "tests/fuzz/fuzz.h"

#include "common/miopen/driver_line.h"

#include <stdlib.h>
#include <string.h>

static void state_again(const struct problem *problem)
{
    char text[1024];
    struct driver_line line;
    struct problem again = { 0 };
    struct kiln_err err = KILN_ERR_INIT;
    fuzz_expect(problem_check(problem, &err) == KILN_OK, "a parsed problem is a valid one");
    problem_to_driver(problem, text, sizeof(text));
    fuzz_expect(driver_line_parse(bytes_of_text(text), &line, &err) == KILN_OK,
                "a problem's own command line can be parsed");
    fuzz_expect(driver_line_problem(&line, 0, &again), "and states a problem");
    fuzz_expect(problem_equal(problem, &again), "the same one");
}

static void parse(struct bytes text)
{
    struct driver_line line;
    struct problem problem;
    struct kiln_err err = KILN_ERR_INIT;
    if (driver_line_parse(text, &line, &err))
        return;
    for (unsigned i = 0; driver_line_problem(&line, i, &problem); i++)
        state_again(&problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = fuzz_copy(bytes_of(data, size));
    size_t at = 0;
    while (at < size) {
        const uint8_t *end = memchr(copy + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (copy + at)) : size - at;
        parse(bytes_of(copy + at, length));
        at += length + 1;
    }
    free(copy);
    return 0;
}
