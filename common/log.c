/* SPDX-License-Identifier: MIT */
#include "common/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int threshold = LOG_LEVEL_INFO;

static const struct {
    const char *name;
    int priority; /* syslog(3) */
} levels[] = {
    [LOG_LEVEL_ERROR] = { "error", 3 },
    [LOG_LEVEL_WARNING] = { "warning", 4 },
    [LOG_LEVEL_INFO] = { "info", 6 },
    [LOG_LEVEL_DEBUG] = { "debug", 7 },
};

void log_set_level(enum log_level most) { atomic_store(&threshold, (int)most); }

KILN_PRINTF(2, 0)
static void write_line(enum log_level level, const char *fmt, va_list args)
{
    if ((int)level > atomic_load(&threshold))
        return;
    char line[1024];
    int used = getenv("JOURNAL_STREAM")
                   ? snprintf(line, sizeof(line), "<%d>", levels[level].priority)
                   : snprintf(line, sizeof(line), "%s: ", levels[level].name);
    size_t at = (size_t)used;
    int more = vsnprintf(line + at, sizeof(line) - at - 1, fmt, args);
    at = more < 0 ? at : at + (size_t)more;
    if (at > sizeof(line) - 2)
        at = sizeof(line) - 2;
    line[at++] = '\n';
    if (write(STDERR_FILENO, line, at) < 0)
        return; /* nobody is left to be told */
}

#define LOG_DEFINE(name, level)         \
    void name(const char *fmt, ...)     \
    {                                   \
        va_list args;                   \
        va_start(args, fmt);            \
        write_line((level), fmt, args); \
        va_end(args);                   \
    }

LOG_DEFINE(log_error, LOG_LEVEL_ERROR)
LOG_DEFINE(log_warning, LOG_LEVEL_WARNING)
LOG_DEFINE(log_info, LOG_LEVEL_INFO)
LOG_DEFINE(log_debug, LOG_LEVEL_DEBUG)
