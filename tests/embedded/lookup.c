/* SPDX-License-Identifier: MIT */

/* Looks up FindDb and PerfDb records through libkiln. Reads lines "find ID KEY" and "perf ID KEY"
 * from standard input, and prints each record, or "-" if there is none. "keep ID KEY" records a
 * measurement and prints "kept" or the error.
 *
 * One program is linked with libkiln.a, which has the databases inside, and another with
 * libkiln.so, which asks kilnd. With an argument, the program finally prints how long the first
 * answer took since the start of main. */
#include "engine/miopen/problem_key.h"
#include "tests/support/public_problem.h"

#include <kiln/tuning.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool keep_record(struct kiln_client *client, const struct kiln_problem *problem,
                        const char *id)
{
    static const char *const algorithms[] = { "miopenConvolutionFwdAlgoDirect",
                                              "miopenConvolutionBwdDataAlgoDirect",
                                              "miopenConvolutionBwdWeightsAlgoDirect" };
    struct kiln_error err = { 0 };
    const struct kiln_measurement m = { .size = sizeof(m),
                                        .solver = "ConvMine",
                                        .algorithm = algorithms[problem->direction],
                                        .median_ms = 0.25,
                                        .samples = 1 };
    const struct kiln_recording recording = { .size = sizeof(recording),
                                              .database_id = id,
                                              .tier = KILN_TUNING_USER,
                                              .measurements = &m,
                                              .measurement_count = 1 };
    puts(kiln_find_put(client, problem, &recording, &err) ? err.text : "kept");
    return true;
}

static bool look_up(struct kiln_client *client, const char *kind, const char *id, const char *key)
{
    bool is_find = strcmp(kind, "perf") != 0;
    struct problem problem;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code code = is_find ? find_key_parse(bytes_of_text(key), &problem, &why)
                                  : perf_key_parse(bytes_of_text(key), &problem, &why);
    if (code) {
        fprintf(stderr, "lookup: '%s': %s\n", key, why.text);
        return false;
    }
    const struct kiln_problem p = public_problem(&problem);
    if (strcmp(kind, "keep") == 0)
        return keep_record(client, &p, id);
    const struct kiln_tuning_options options = { .size = sizeof(options), .database_id = id };
    struct kiln_tuned *tuned = NULL;
    struct kiln_error err = { 0 };
    int rc = is_find ? kiln_find_get(client, &p, &options, &tuned, &err)
                     : kiln_perf_get(client, &p, &options, &tuned, &err);
    if (rc && rc != KILN_E_NOT_FOUND) {
        fprintf(stderr, "lookup: '%s': %s\n", key, err.text);
        return false;
    }
    if (rc)
        puts("-");
    else
        printf("%d %s %s\n", kiln_tuned_tier(tuned), kiln_tuned_key(tuned), kiln_tuned_text(tuned));
    kiln_tuned_free(tuned);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t began = now_ns(), first = 0;
    struct kiln_client *client = NULL;
    struct kiln_error err = { 0 };
    char line[1024], kind[8], id[64], key[512];
    if (kiln_client_open(NULL, &client, &err)) {
        fprintf(stderr, "lookup: %s\n", err.text);
        return 1;
    }
    bool is_well = true;
    while (is_well && fgets(line, sizeof(line), stdin)) {
        is_well =
            sscanf(line, "%7s %63s %511s", kind, id, key) == 3 && look_up(client, kind, id, key);
        first = first ? first : now_ns();
    }
    kiln_client_close(client);
    if (argc > 1)
        fprintf(stderr, "%s: first answer after %.3f ms\n", argv[1], (double)(first - began) / 1e6);
    return is_well ? 0 : 1;
}
