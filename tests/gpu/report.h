/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Prints the results of trials, as text and as JSON.
 *
 * Threading  one thread
 */
#include "tests/gpu/gpu_trial.h"

#include <stdio.h>

void report_row(const struct trials *trials, size_t index);
void report_json(FILE *json, const struct trials *trials, size_t index);
/* For each problem with several trials, prints the fastest correct trial. */
void report_best(const struct trials *trials);
/* Prints totals. Returns true if every trial that began was correct. */
bool report_summary(const struct trials *trials);
