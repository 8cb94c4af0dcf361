/* SPDX-License-Identifier: MIT */
#pragma once

/* Reads the problems for GPU trials from files, changes them, and writes their names.
 *
 * Threading  pure functions */
#include "common/base/err.h"
#include "common/protocol/problem.h"

#include <stdio.h>

struct problem_change {
    uint32_t batch; /* new batch size; 0 keeps the problem's */
    int type;       /* new type, an index into problem_types[]; -1 keeps the problem's type */
    int layout;
    int direction; /* problems with another direction are left out; -1 means none */
};

#define PROBLEM_UNCHANGED \
    {                     \
        0, -1, -1, -1     \
    }

/* "tf32" is the type fp32 with TF32 allowed. */
#define PROBLEM_TYPES 4
extern const char *const problem_types[PROBLEM_TYPES];

void problem_change(struct problem *problem, const struct problem_change *change);

typedef enum kiln_code problem_found(void *context, const struct problem *problem,
                                     struct kiln_err *err);
/* Calls |found| for each problem of the line. A blank line or a comment has none. */
KILN_MUST_CHECK enum kiln_code problems_take(const char *line, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code problems_read(const char *path, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);

/* Returns the least number of bytes that must be read or written. Counts each element of the three
 * tensors once, except elements that no output reads. */
double problem_bytes(const struct problem *p);
/* Writes a text such as "F fp16 NHWC 64x256x56x56 k64 1x1 s1 p0". Different problems of a network
 * have different texts. */
void problem_label(const struct problem *p, char *text, size_t size);

/* Write members of a JSON object such as "name": "text", each followed by a comma. */
void json_write_text(FILE *json, const char *name, const char *text);
void problem_write_json(FILE *json, const struct problem *p);
