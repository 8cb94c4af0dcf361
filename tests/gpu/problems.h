/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The problems of GPU trials and comparisons: reads them from files, changes and names them.
 *
 * Threading  pure functions
 */
#include "common/base/err.h"
#include "common/protocol/problem.h"

#include <stdio.h>

struct problem_change { /* changes to a problem */
    uint32_t batch;     /* 0: no change */
    int type;           /* a place in problem_types[]; -1: as it is */
    int layout;
    int direction; /* -1: any; else others are left out */
};

#define PROBLEM_UNCHANGED \
    {                     \
        0, -1, -1, -1     \
    }

/* "fp32", "fp16", "bf16", "tf32": fp32 that allows TF32. */
#define PROBLEM_TYPES 4
extern const char *const problem_types[PROBLEM_TYPES];

void problem_change(struct problem *problem, const struct problem_change *change);

typedef enum kiln_code problem_found(void *context, const struct problem *problem,
                                     struct kiln_err *err);
/* Reads the problems of one MIOpenDriver command line; a blank line or a comment has none. */
KILN_MUST_CHECK enum kiln_code problems_take(const char *line, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);
/* Reads a file of MIOpenDriver command lines; skips blank lines and comments. */
KILN_MUST_CHECK enum kiln_code problems_read(const char *path, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);

/* The least that must be moved: the bytes of the three tensors, without what no output reads. */
double problem_bytes(const struct problem *p);
/* "F fp16 NHWC 64x256x56x56 k64 1x1 s1 p0": distinguishes the problems of a network. */
void problem_label(const struct problem *p, char *text, size_t size);

/* Write members of a JSON object with a trailing comma: "name": "text", */
void json_write_text(FILE *json, const char *name, const char *text);
void problem_write_json(FILE *json, const struct problem *p);
