/* SPDX-License-Identifier: MIT */
#pragma once

/* The findings of kilnctl doctor.  Each is printed as one line, and may have advice on further
 * lines.
 *
 * Ownership  plain values; messages that are too long are truncated
 * Threading  one thread */
#include "cli/fail.h"
#include "common/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum verdict {
    VERDICT_OK,
    VERDICT_WARN, /* kilnd works, but not as well as it could */
    VERDICT_FAIL,
    /* could not be checked, for example because kilnd does not run or denies access */
    VERDICT_UNSEEN,
};

struct finding {
    char check[32];
    enum verdict verdict;
    char what[512];
    char advice[768];
};

#define FINDINGS_MAX 96

struct findings {
    struct finding items[FINDINGS_MAX];
    size_t count;
};

struct finding *findings_add(struct findings *findings, const char *check, enum verdict verdict,
                             const char *fmt, ...) CLI_PRINTF(4, 5);
void findings_advise(struct finding *finding, const char *fmt, ...) CLI_PRINTF(2, 3);
/* Moves each failure with index |from| or higher to the front, because these failures may have
 * caused the findings with lower indices. */
void findings_causes_first(struct findings *findings, size_t from);
size_t findings_count(const struct findings *findings, enum verdict verdict);
const char *verdict_name(enum verdict verdict);
void findings_print(const struct findings *findings, FILE *out);
struct json *findings_to_json(const struct findings *findings);
