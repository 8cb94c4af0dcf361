/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Formats one log record in each of the output formats.  Quoted values may be hostile: no byte of
 * them can begin another line, field or object.
 *
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/log/log.h"

struct log_record {
    const char *level; /* "warning" */
    int priority;      /* of syslog(3) */
    const char *event; /* NULL: none, and no id */
    const char *id;    /* 32 hexadecimal digits */
    const char *message;
    uint64_t wall_us;                /* since the epoch */
    const struct log_fields *fields; /* NULL: none */
};

/* "warning: MESSAGE" with a newline; |for_stream|: "<4>MESSAGE", journald's format for streams. */
void log_record_text(struct buffer *line, const struct log_record *record, bool for_stream);
/* An object on one line, with a newline. */
void log_record_json(struct buffer *line, const struct log_record *record);
/* journald's native format: NAME=value lines, or NAME, a size and bytes. */
void log_record_journal(struct buffer *out, const struct log_record *record);
