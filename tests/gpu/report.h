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
/* Writes one JSON object on a line. */
void report_json(FILE *json, const struct trials *trials, size_t index);
/* Prints the fastest right trial of each problem with several trials. */
void report_best(const struct trials *trials);
/* Prints counts; true if every trial that was begun was right. */
bool report_summary(const struct trials *trials);
