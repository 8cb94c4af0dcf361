/* SPDX-License-Identifier: MIT */

/*
 * Picks COUNT random records of a tuning index, and prints them as lines for lookup:
 *     pick find|perf ID INDEX COUNT SEED
 * In every tenth line, the batch size is changed, so there may be no record for it.
 */
#include "common/protocol/problem.h"
#include "engine/miopen/problem_key.h"
#include "engine/tuning/tuning_index.h"

#include <stdio.h>
#include <string.h>

static bool parse_line(bool is_find, struct bytes key, struct problem *ret_problem)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    return (is_find ? find_key_parse(key, ret_problem, &ignored)
                    : perf_key_parse(key, ret_problem, &ignored)) == KILN_OK;
}

static void print_line(const char *kind, const char *id, struct bytes key, bool changes)
{
    struct problem problem;
    char text[PROBLEM_KEY_MAX];
    bool is_find = strcmp(kind, "find") == 0;
    if (!parse_line(is_find, key, &problem))
        return; /* no kiln problem has this key, so kiln stores the record verbatim */
    problem.n += changes ? 1 : 0;
    size_t size = is_find ? find_key_write(&problem, text) : perf_key_write(&problem, text);
    if (size > 0)
        printf("%s %s %s\n", kind, id, text);
}

int main(int argc, char **argv)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_index *index = NULL;
    if (argc != 6 || tuning_index_open(argv[3], &index, &err)) {
        fprintf(stderr, "pick: %s\n", argc == 6 ? err.text : "needs five words");
        return 1;
    }
    unsigned seed = (unsigned)strtoul(argv[5], NULL, 10);
    for (unsigned long i = 0, count = strtoul(argv[4], NULL, 10); i < count; i++) {
        struct tuning_index_record record;
        uint64_t place = ((uint64_t)rand_r(&seed) << 16 | (unsigned)rand_r(&seed) % 65536) %
                         tuning_index_count(index);
        if (tuning_index_at(index, place, &record))
            print_line(argv[1], argv[2], record.key, i % 10 == 9);
    }
    tuning_index_destroy(index);
    return 0;
}
