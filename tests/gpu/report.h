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
/* Prints the best trial of each problem that has several trials. */
void report_best(const struct trials *trials);
/* Returns true if every trial that was begun was correct. */
bool report_summary(const struct trials *trials);
