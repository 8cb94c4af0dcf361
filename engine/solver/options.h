/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The -DKILN_... options of a program, as every kernel family reads them (kernels/README.md).
 *
 * Role       one writer, so that one problem is spelled one way
 * Ownership  the text's room is the caller's
 * Threading  no shared state
 */
#include "common/problem.h"

struct option_text { /* under construction */
    char *data;      /* borrowed; terminated after each call once something was written */
    size_t size, used;
};

/* -DKILN_<name>=<value>.  What does not fit is cut off; solution_program has room for all. */
void option_define(struct option_text *text, const char *name, uint32_t value);
/* The three of -DKILN_<name>_{D,H,W}. */
void option_define_extent(struct option_text *text, const char *name, struct extent value);
/* DIRECTION TYPE C K GROUPS, IN OUT FILTER PAD STRIDE DILATION, X_LAST W_LAST Y_LAST: all of a
 * problem but its batch. */
void option_define_problem(struct option_text *text, const struct problem *p);
