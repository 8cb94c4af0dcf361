/* SPDX-License-Identifier: MIT */
#pragma once

/* Values of options, and texts, that the commands for tuning databases share.
 *
 * Threading  one thread */
#include "cli/fail.h"
#include "common/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;

#define DB_TIERS "system host user"
#define DB_OWN_TIERS "host user"
#define DB_KINDS "find perf"
#define DB_DIALECTS "old new"
#define DB_FORMATS "text sqlite"
/* The backends of files that MIOpen reads. A backend's name may continue after a dot, such as
 * "HIP.fusion"; compare only the part before the first dot. */
#define DB_MIOPEN_BACKENDS "HIP OpenCL batchnorm"

/* Return the dialect of FindDb, and the format of PerfDb, of a MIOpen version. Return NULL if the
 * version is NULL or unknown, or if its builds differ. */
const char *db_dialect_of(const char *version);
const char *db_format_of(const char *version);
bool db_word_is(const char *word, const char *choices);
CLI_MUST_CHECK int db_check_word(const char *option, const char *given, const char *choices,
                                 struct kiln_error *err);
#define DB_NAME_MAX 64
const char *db_user_name(const struct json *json, char text[DB_NAME_MAX]);
/* Writes a number with its noun, such as "193 590 records", into |text|. Returns |text|. */
const char *db_count(uint64_t count, const char *noun, char text[DB_NAME_MAX]);
void db_say(const char *fmt, ...) CLI_PRINTF(1, 2);
void db_print_conflict(void *context, const struct json *item);
