/* SPDX-License-Identifier: MIT */
#include "tests/support/shell.h"

#include "common/base/cleanup.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND_MAX 2048
#define OUTPUT_MAX (4u << 20)

KILN_PRINTF(3, 0)
static void command_in(const char *directory, char command[COMMAND_MAX], const char *format,
                       va_list args)
{
    int used = snprintf(command, COMMAND_MAX, "cd '%s' && ", directory);
    int more = vsnprintf(command + used, (size_t)(COMMAND_MAX - used), format, args);
    assert_true(more >= 0 && used + more < COMMAND_MAX);
}

static char *output_of(const char *command)
{
    FILE *output = popen(command, "re"); // NOLINT(cert-env33-c): plain tools are the oracle
    assert_non_null(output);
    char *text = calloc(1, OUTPUT_MAX);
    assert_non_null(text);
    size_t size = fread(text, 1, OUTPUT_MAX - 1, output);
    text[size] = '\0';
    if (pclose(output) != 0)
        fail_msg("failed: %s: '%.2000s'", command, text);
    return text;
}

void shell(const char *directory, const char *format, ...)
{
    char command[COMMAND_MAX];
    va_list args;
    va_start(args, format);
    command_in(directory, command, format, args);
    va_end(args);
    free(output_of(command));
}

char *shell_text(const char *directory, const char *format, ...)
{
    char command[COMMAND_MAX];
    va_list args;
    va_start(args, format);
    command_in(directory, command, format, args);
    va_end(args);
    return output_of(command);
}

void shell_says(const char *expected, const char *directory, const char *format, ...)
{
    char command[COMMAND_MAX];
    va_list args;
    va_start(args, format);
    command_in(directory, command, format, args);
    va_end(args);
    KILN_AUTO(mem) char *text = output_of(command);
    for (size_t size = strlen(text); size > 0 && text[size - 1] == '\n'; size--)
        text[size - 1] = '\0';
    assert_string_equal(text, expected);
}
