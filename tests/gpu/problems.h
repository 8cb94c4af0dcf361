/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The problems that GPU trials and comparisons are about: read from files, changed, named.
 *
 * Threading  pure functions
 */
#include "common/err.h"
#include "common/problem.h"

#include <stdio.h>

struct problem_change { /* what to make of a problem */
    uint32_t batch;     /* 0: as it is */
    int type;           /* -1: as it is */
    int layout;
    int direction; /* -1: any; else others are left out */
};

#define PROBLEM_UNCHANGED \
    {                     \
        0, -1, -1, -1     \
    }

void problem_change(struct problem *problem, const struct problem_change *change);

typedef enum kiln_code problem_found(void *context, const struct problem *problem,
                                     struct kiln_err *err);
/* Of one MIOpenDriver command line; none where it is blank or a comment. */
KILN_MUST_CHECK enum kiln_code problems_take(const char *line, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);
/* MIOpenDriver command lines; blank lines and comments are skipped. */
KILN_MUST_CHECK enum kiln_code problems_read(const char *path, const struct problem_change *change,
                                             problem_found *found, void *context,
                                             struct kiln_err *err);

/* Of the three tensors: what must be moved at least. */
double problem_bytes(const struct problem *p);
/* "F fp16 NHWC 64x256x56x56 k64 1x1 s1 p0": enough to tell problems of a network apart. */
void problem_label(const struct problem *p, char *text, size_t size);

/* Parts of a JSON object: "name": "text", with the comma. */
void json_write_text(FILE *json, const char *name, const char *text);
void problem_write_json(FILE *json, const struct problem *p);
