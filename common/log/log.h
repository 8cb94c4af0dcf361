/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Log lines of kilnd (libkiln never logs).
 *
 * Role       writes one record per event of common/log/log_events.def: a line of text or a JSON
 *            object on standard error, or journald's native fields.  Engine code only writes debug
 *            lines; the daemon logs each failure once, where it decides how to handle it.  Events
 *            that clients can cause are rate-limited, each kind separately
 * Format     docs/operations/logs.md
 * Threading  any thread; a record is one system call
 */
#include "common/base/digest.h"
#include "common/base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* The output format.  LOG_FORMAT_AUTO means journald's fields if standard error is a stream of the
 * journal, else text. */
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_JOURNAL };

enum log_event {
#define LOG_EVENT(name, level, limit, id, subject, advice) LOG_EVENT_##name,
#include "common/log/log_events.def"
#undef LOG_EVENT
    LOG_EVENTS
};

/* The fields of a record besides its message.  Texts are borrowed.  A field that does not apply is
 * NULL or 0. */
struct log_fields {
    const char *event; /* replaces the event's name, for an event that is not in the table */
    const struct digest *key;
    const uint32_t *uid;
    const char *target;
    uint64_t duration_us;
};

void log_set_level(enum log_level most);
/* Sets the format, which is text before the first call.  If journald cannot be reached,
 * LOG_FORMAT_JOURNAL fails and keeps the old format, but LOG_FORMAT_AUTO uses text and logs a
 * message. */
KILN_MUST_CHECK enum kiln_code log_set_format(enum log_format format, struct kiln_err *err);

/* Sends every later record only to |sink|, on the thread that logs it.  This is for programs with
 * the engine linked in, where kiln may not write to standard error. */
void log_set_sink(void (*sink)(enum log_level level, const char *message));

/* Logs an event.  |fields| may be NULL. */
void log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
    KILN_PRINTF(3, 4);
/* Logs a line for debugging, without an event. */
void log_debug(const char *fmt, ...) KILN_PRINTF(1, 2);
/* Returns the event with that name, or LOG_EVENT_notice if there is none in the table. */
enum log_event log_event_named(const char *name);
/* Reports withheld lines; call it periodically.  For each kind of event that may be logged again,
 * logs how many lines were withheld. */
void log_report_withheld(void);
