/* SPDX-License-Identifier: MIT */
/* Tests parsers of FindDb and PerfDb keys. If a key is parsed, printing the problem must give the
 * same key. */
#include "tests/fuzz/fuzz.h"

#include "engine/miopen/problem_key.h"
#include "engine/tuning/family.h"

#include <stdlib.h>

typedef enum kiln_code parse_key(struct bytes text, struct problem *ret_problem,
                                 struct kiln_err *err);
typedef size_t write_key(const struct problem *p, char text[PROBLEM_KEY_MAX]);

static void round_trip(parse_key *parse, write_key *write, struct bytes text)
{
    struct problem problem;
    char again[PROBLEM_KEY_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    if (parse(text, &problem, &err))
        return;
    fuzz_expect(problem_check(&problem, &err) == KILN_OK, "a parsed problem is a valid one");
    size_t size = write(&problem, again);
    fuzz_expect(bytes_equal(text, bytes_of(again, size)), "a key is written as it was parsed");
}

static void names(struct bytes text)
{
    struct problem problems[3];
    unsigned count = 0;
    struct kiln_err err = KILN_ERR_INIT;
    if (problem_named(text, problems, &count, &err))
        return;
    fuzz_expect(count >= 1 && count <= 3, "one to three problems");
    for (unsigned i = 0; i < count; i++) {
        char key[PROBLEM_KEY_MAX];
        fuzz_expect(problem_check(&problems[i], &err) == KILN_OK, "valid ones");
        round_trip(find_key_parse, find_key_write,
                   bytes_of(key, find_key_write(&problems[i], key)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = fuzz_copy(bytes_of(data, size));
    struct bytes text = bytes_of(copy, size);
    struct family_names storage;
    round_trip(find_key_parse, find_key_write, text);
    round_trip(perf_key_parse, perf_key_write, text);
    names(text);
    kinship_of_key(TUNING_FIND, text, &storage);
    kinship_of_key(TUNING_PERF, text, &storage);
    free(copy);
    return 0;
}
