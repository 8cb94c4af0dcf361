/* SPDX-License-Identifier: MIT */
/* Tests the JSON parser. If the input parses, the value is printed. The printed text must parse,
 * too, and its value must be printed as the same text. */
#include "tests/fuzz/fuzz.h"

#include "common/base/json.h"

#include <stdlib.h>
#include <string.h>

static void walk(const struct json *json, unsigned *count)
{
    for (const struct json *j = json_first(json); j; j = json_next(j)) {
        ++*count;
        json_get_u64(json, json_name(j) ? json_name(j) : "", 0);
        json_as_text(j, "");
        json_as_number(j, 0);
        walk(j, count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    uint8_t *copy = fuzz_copy(bytes_of(data, size));
    KILN_AUTO(json) struct json *first = NULL;
    enum kiln_code rc = json_parse(bytes_of(copy, size), "an input", &first, &err);
    free(copy);
    if (rc)
        return 0;
    unsigned count = 0;
    walk(first, &count);
    KILN_AUTO(mem) char *text = json_print(first, false);
    fuzz_expect(text, "what was parsed can be printed");
    KILN_AUTO(json) struct json *second = NULL;
    fuzz_expect(json_parse(bytes_of_text(text), "a print", &second, &err) == KILN_OK,
                "and parsed again");
    KILN_AUTO(mem) char *again = json_print(second, false);
    fuzz_expect(again && strcmp(text, again) == 0, "to the same text");
    return 0;
}
