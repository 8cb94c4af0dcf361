/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One log record in each of the forms that it is written in.  What it quotes may come from anybody:
 * no byte of it begins another line, field or object.
 *
 * Threading  pure functions
 */
#include "common/bytes.h"
#include "common/log.h"

struct log_record {
    const char *level; /* "warning" */
    int priority;      /* of syslog(3) */
    const char *event; /* NULL: none, and no id */
    const char *id;    /* 32 hexadecimal digits */
    const char *message;
    uint64_t wall_us;                /* since the epoch */
    const struct log_fields *fields; /* NULL: none */
};

/* "warning: MESSAGE" and a line end; |for_stream|: "<4>MESSAGE", as journald reads a stream. */
void log_record_text(struct buffer *line, const struct log_record *record, bool for_stream);
/* An object on one line, with a line end. */
void log_record_json(struct buffer *line, const struct log_record *record);
/* journald's native form: NAME=value lines, or NAME, a size and bytes. */
void log_record_journal(struct buffer *out, const struct log_record *record);
