/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What came of trials, for people and for programs.
 *
 * Threading  one thread
 */
#include "tests/gpu/gpu_trial.h"

#include <stdio.h>

void report_row(const struct trials *trials, size_t index);
/* One JSON object on a line of its own. */
void report_json(FILE *json, const struct trials *trials, size_t index);
/* The fastest right trial of each problem that had several. */
void report_best(const struct trials *trials);
/* Counts; true when everything that was begun was right. */
bool report_summary(const struct trials *trials);
