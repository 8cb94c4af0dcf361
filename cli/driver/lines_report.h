/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Prints one problem's result in MIOpenDriver's format, then how the time was spent.
 *
 * Threading  one thread at a time for each stream
 */
#include "cli/driver/report.h"

#include <stdio.h>

void lines_report_print(const struct report_place *place, const struct measurement *measurement,
                        FILE *out);
void lines_report_failure(const struct report_place *place, const struct kiln_error *err,
                          FILE *out);
