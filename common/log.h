/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Log lines of the programs (not of libkiln, which never logs).
 *
 * One line a message on standard error: "<level> <text>", with the syslog priority prefix "<N>"
 * when JOURNAL_STREAM is set.  Engine code does not log above debug; the daemon logs each
 * failure once, where it decides what to do about it.
 * Threading  any thread; a line is one write(2).
 */
#include "common/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level most);
void log_error(const char *fmt, ...) KILN_PRINTF(1, 2);
void log_warning(const char *fmt, ...) KILN_PRINTF(1, 2);
void log_info(const char *fmt, ...) KILN_PRINTF(1, 2);
void log_debug(const char *fmt, ...) KILN_PRINTF(1, 2);
