/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The problems of GPU trials and comparisons: reads problems from files, changes them and names
 * them.
 *
 * Threading  pure functions
 */
#include "common/base/err.h"
#include "common/protocol/problem.h"

#include <stdio.h>

struct problem_change {
    uint32_t batch; /* new batch size; 0 means no change */
    int type;       /* index into problem_types[]; -1: no change */
    int layout;
    int direction; /* keep only this direction; -1: all directions */
};

#define PROBLEM_UNCHANGED \
    {                     \
        0, -1, -1, -1     \
    }

/* "tf32" means fp32 that allows TF32. */
#define PROBLEM_TYPES 4
extern const char *const problem_types[PROBLEM_TYPES];

void problem_change(struct problem *problem, const struct problem_change *change);

typedef enum kiln_code problem_found(void *context, const struct problem *problem,
                                     struct kiln_err *err);
/* Reads the problems of a line. A blank line or a comment has none. */
KILN_MUST_CHECK enum kiln_code problems_take(const char *line, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code problems_read(const char *path, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);

/* Returns the number of bytes that must be moved at least. Each element of the three tensors counts
 * once, except elements that no output reads. */
double problem_bytes(const struct problem *p);
/* Writes a text such as "F fp16 NHWC 64x256x56x56 k64 1x1 s1 p0", which distinguishes the problems
 * of a network. */
void problem_label(const struct problem *p, char *text, size_t size);

/* Write members of a JSON object, each with a trailing comma: "name": "text", */
void json_write_text(FILE *json, const char *name, const char *text);
void problem_write_json(FILE *json, const struct problem *p);
