/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Log lines of kilnd (libkiln never logs).
 *
 * Role       one record an event of common/log_events.def: a line of text or an object of JSON on
 *            standard error, or journald's own fields.  Engine code does not log above debug; the
 *            daemon logs each failure once, where it decides what to do about it.  Events that
 *            others may cause any number of are limited, each kind by itself
 * Format     docs/operations/logs.md
 * Threading  any thread; a record is one system call
 */
#include "common/digest.h"
#include "common/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* AUTO: journald's fields where standard error is a stream of the journal, else text. */
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_TEXT, LOG_FORMAT_JSON, LOG_FORMAT_JOURNAL };

enum log_event {
#define LOG_EVENT(name, level, limit, id, subject, advice) LOG_EVENT_##name,
#include "common/log_events.def"
#undef LOG_EVENT
    LOG_EVENTS
};

/* What a record has beside its sentence; all borrowed, NULL and 0 where it does not apply. */
struct log_fields {
    const char *event; /* another name than the event's own: of one that the table lacks */
    const struct digest *key;
    const uint32_t *uid;
    const char *target;
    uint64_t duration_us;
};

void log_set_level(enum log_level most);
/* Text before the first call.  On failure (JOURNAL, and no journald) all stays as it was; AUTO does
 * with lines of text where it cannot be reached, and says so. */
KILN_MUST_CHECK enum kiln_code log_set_format(enum log_format format, struct kiln_err *err);

/* From now on every record goes to |sink| and nowhere else, on the thread that it comes from: for a
 * process whose standard error is not ours. */
void log_set_sink(void (*sink)(enum log_level level, const char *message));

/* |fields| may be NULL. */
void log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
    KILN_PRINTF(3, 4);
/* A line without an event, for whoever looks for a fault. */
void log_debug(const char *fmt, ...) KILN_PRINTF(1, 2);
/* The event of that name; LOG_EVENT_notice where the table lacks it. */
enum log_event log_event_named(const char *name);
/* Now and then: says how many lines were withheld of kinds that may be written again. */
void log_report_withheld(void);
