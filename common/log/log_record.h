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
    const char *level; /* such as "warning" */
    int priority;      /* priority as for syslog(3) */
    const char *event; /* NULL for a line without an event, which has no id either */
    const char *id;    /* 32 hexadecimal digits */
    const char *message;
    uint64_t wall_us;                /* microseconds since the epoch */
    const struct log_fields *fields; /* may be NULL */
};

/* Writes "warning: MESSAGE" and a newline.  If |for_stream| is true, writes "<4>MESSAGE", which is
 * journald's format for streams. */
void log_record_text(struct buffer *line, const struct log_record *record, bool for_stream);
/* Writes a JSON object on one line, and a newline. */
void log_record_json(struct buffer *line, const struct log_record *record);
/* Writes journald's native format: for each field a line NAME=value, or NAME, a size and the
 * bytes. */
void log_record_journal(struct buffer *out, const struct log_record *record);
