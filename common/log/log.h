/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Log lines of kilnd (libkiln never logs).
 *
 * Role       writes one record per event of common/log/log_events.def.  Engine code only writes
 *            debug lines; the daemon logs each failure once.  Events that clients can cause are
 *            rate-limited, each kind separately
 * Format     docs/operations/logs.md
 * Threading  any thread; a record is one system call
 */
#include "common/base/digest.h"
#include "common/base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* LOG_FORMAT_AUTO means LOG_FORMAT_JOURNAL if standard error is a stream of the journal, else
 * text. */
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_JOURNAL };

enum log_event {
#define LOG_EVENT(name, level, limit, id, subject, advice) LOG_EVENT_##name,
#include "common/log/log_events.def"
#undef LOG_EVENT
    LOG_EVENTS
};

/* Texts are borrowed.  A field that does not apply is NULL or 0. */
struct log_fields {
    const char *event; /* replaces the event's name, for an event that is not in the table */
    const struct digest *key;
    const uint32_t *uid;
    const char *target;
    uint64_t duration_us;
};

void log_set_level(enum log_level most);
/* Sets the format, which is text before the first call.  If journald cannot be reached,
 * LOG_FORMAT_JOURNAL fails and keeps the old format; LOG_FORMAT_AUTO uses text. */
KILN_MUST_CHECK enum kiln_code log_set_format(enum log_format format, struct kiln_err *err);

/* Sends every later record only to |sink|, on the thread that logs it.  A program with the engine
 * linked in uses this, because kiln may not write to the program's standard error. */
void log_set_sink(void (*sink)(enum log_level level, const char *message));

void log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
    KILN_PRINTF(3, 4);
void log_debug(const char *fmt, ...) KILN_PRINTF(1, 2);
/* Returns LOG_EVENT_notice for an unknown name. */
enum log_event log_event_named(const char *name);
/* Logs how many lines were withheld.  Call it periodically. */
void log_report_withheld(void);
