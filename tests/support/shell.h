/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/base/err.h"

/* Runs the command in |directory|. The command must succeed. */
void shell(const char *directory, const char *format, ...) KILN_PRINTF(2, 3);
/* Like shell, but returns the command's output, which the caller owns. */
char *shell_text(const char *directory, const char *format, ...) KILN_PRINTF(2, 3);
/* Like shell, but the output must be |expected|, except for trailing newlines. */
void shell_says(const char *expected, const char *directory, const char *format, ...)
    KILN_PRINTF(3, 4);
