/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs shell commands. Many tests compare kiln's results with those of standard tools. */
#include "common/base/err.h"

/* The command runs in |directory|, and must succeed. */
void shell(const char *directory, const char *format, ...) KILN_PRINTF(2, 3);
/* The caller owns the output. */
char *shell_text(const char *directory, const char *format, ...) KILN_PRINTF(2, 3);
/* The output must be |expected|, except for trailing line ends. */
void shell_says(const char *expected, const char *directory, const char *format, ...)
    KILN_PRINTF(3, 4);
