/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Formats one log record in each of the output formats.  Quoted values may come from an attacker:
 * none of their bytes can begin another line, field or object.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/log/log.h"

struct log_record {
    const char *level;
    int priority;
    const char *event; /* NULL for a line without an event */
    const char *id;    /* 32 hexadecimal digits */
    const char *message;
    uint64_t wall_us; /* since the epoch */
    const struct log_fields *fields;
};

/* Writes "warning: MESSAGE"; if |for_stream| is true, "<4>MESSAGE", journald's format for
 * streams. */
void log_record_text(struct buffer *line, const struct log_record *record, bool for_stream);
void log_record_json(struct buffer *line, const struct log_record *record);
/* Writes each field as a line NAME=value.  For a value with line ends, writes NAME, the value's
 * size and its bytes. */
void log_record_journal(struct buffer *out, const struct log_record *record);
