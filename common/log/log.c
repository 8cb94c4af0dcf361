/* SPDX-License-Identifier: MIT */
#include "common/log/log.h"

#include "common/base/clock.h"
#include "common/log/log_journal.h"
#include "common/log/log_limit.h"
#include "common/log/log_record.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_MAX 16384
/* Maximum size of a line. Escaping turns each byte of a message into at most six bytes. */
#define LINE_MAX (8 * MESSAGE_MAX)

enum limit { ALWAYS, OFTEN };

static const struct {
    const char *name;
    enum log_level level;
    enum limit limit;
    const char *id;
} events[LOG_EVENTS] = {
#define LOG_EVENT(name_, level_, limit_, id_, subject, advice) \
    { .name = #name_, .level = LOG_LEVEL_##level_, .limit = (limit_), .id = (id_) },
#include "common/log/log_events.def"
#undef LOG_EVENT
};

static const struct {
    const char *name;
    int priority; /* as for syslog(3) */
} levels[] = {
    [LOG_LEVEL_ERROR] = { "error", 3 },
    [LOG_LEVEL_WARNING] = { "warning", 4 },
    [LOG_LEVEL_INFO] = { "info", 6 },
    [LOG_LEVEL_DEBUG] = { "debug", 7 },
};

typedef void (*log_sink)(enum log_level level, const char *message);

static atomic_int threshold = LOG_LEVEL_INFO;
static _Atomic(log_sink) current_sink;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct log_limit limits[LOG_EVENTS];
static enum log_format form = LOG_FORMAT_TEXT;
static bool for_stream;
static int journal = -1; /* owned */

void log_set_level(enum log_level most) { atomic_store(&threshold, (int)most); }

void log_set_sink(void (*sink)(enum log_level level, const char *message))
{
    atomic_store(&current_sink, sink);
}

static void set_sink(enum log_format format, bool is_stream, int socket)
{
    pthread_mutex_lock(&mutex);
    int before = journal;
    form = format;
    for_stream = is_stream;
    journal = socket;
    pthread_mutex_unlock(&mutex);
    if (before >= 0)
        close(before);
}

enum kiln_code log_set_format(enum log_format format, struct kiln_err *err)
{
    bool is_stream = journal_is_stream(getenv("JOURNAL_STREAM"), STDERR_FILENO);
    bool wants_journal = format == LOG_FORMAT_JOURNAL || (format == LOG_FORMAT_AUTO && is_stream);
    if (!wants_journal) {
        set_sink(format == LOG_FORMAT_JSON ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT, is_stream, -1);
        return KILN_OK;
    }
    int socket = -1;
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = journal_open(JOURNAL_SOCKET, &socket, &why);
    if (!rc) {
        set_sink(LOG_FORMAT_JOURNAL, is_stream, socket);
        return KILN_OK;
    }
    if (format == LOG_FORMAT_JOURNAL)
        return kiln_fail(err, rc, "log_format journal: %s; set it to text or json", why.text);
    set_sink(LOG_FORMAT_TEXT, is_stream, -1);
    log_event(LOG_EVENT_journal_unreachable, NULL, "%s: log lines have no fields", why.text);
    return KILN_OK;
}

static uint64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void write_line(const struct buffer *line)
{
    if (!line->failed && write(STDERR_FILENO, line->data, line->size) < 0)
        return;
}

/* Allocates nothing, so that a process without memory can still log. */
static void write_record(const struct log_record *record)
{
    static uint8_t space[LINE_MAX];
    struct buffer out = { .data = space, .capacity = sizeof(space), .limit = sizeof(space) };
    if (form == LOG_FORMAT_JOURNAL) {
        log_record_journal(&out, record);
        if (!out.failed && journal_send(journal, buffer_view(&out)))
            return;
        out.size = 0; /* journald may be restarting, so write the record to standard error */
        out.failed = false;
    }
    if (form == LOG_FORMAT_JSON)
        log_record_json(&out, record);
    else
        log_record_text(&out, record, for_stream);
    write_line(&out);
}

static void write_event(enum log_event event, const struct log_fields *fields, const char *message)
{
    const struct log_record record = {
        .level = levels[events[event].level].name,
        .priority = levels[events[event].level].priority,
        .event = fields && fields->event ? fields->event : events[event].name,
        .id = events[event].id,
        .message = message,
        .wall_us = wall_us(),
        .fields = fields,
    };
    write_record(&record);
}

static void report_withheld(enum log_event event, uint64_t now_ns)
{
    char message[160];
    uint64_t withheld = log_limit_report(&limits[event], now_ns);
    if (withheld == 0)
        return;
    snprintf(message, sizeof(message), "%llu lines about '%s' were withheld",
             (unsigned long long)withheld, events[event].name);
    const struct log_fields fields = { .event = events[event].name };
    write_event(LOG_EVENT_withheld, &fields, message);
}

static bool is_wanted(enum log_level level) { return (int)level <= atomic_load(&threshold); }

void log_event(enum log_event event, const struct log_fields *fields, const char *fmt, ...)
{
    if (!is_wanted(events[event].level))
        return;
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    log_sink sink = atomic_load(&current_sink);
    if (sink) {
        sink(events[event].level, message);
        return;
    }
    uint64_t now_ns = clock_monotonic_ns();
    pthread_mutex_lock(&mutex);
    report_withheld(event, now_ns);
    if (events[event].limit == ALWAYS || log_limit_take(&limits[event], now_ns))
        write_event(event, fields, message);
    pthread_mutex_unlock(&mutex);
}

void log_debug(const char *fmt, ...)
{
    if (!is_wanted(LOG_LEVEL_DEBUG))
        return;
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    log_sink sink = atomic_load(&current_sink);
    if (sink) {
        sink(LOG_LEVEL_DEBUG, message);
        return;
    }
    const struct log_record record = { .level = levels[LOG_LEVEL_DEBUG].name,
                                       .priority = levels[LOG_LEVEL_DEBUG].priority,
                                       .message = message,
                                       .wall_us = wall_us() };
    pthread_mutex_lock(&mutex);
    write_record(&record);
    pthread_mutex_unlock(&mutex);
}

void log_report_withheld(void)
{
    uint64_t now_ns = clock_monotonic_ns();
    pthread_mutex_lock(&mutex);
    for (int event = 0; event < LOG_EVENTS; event++)
        report_withheld((enum log_event)event, now_ns);
    pthread_mutex_unlock(&mutex);
}

enum log_event log_event_named(const char *name)
{
    for (int event = 0; event < LOG_EVENTS; event++) {
        if (strcmp(events[event].name, name) == 0)
            return (enum log_event)event;
    }
    return LOG_EVENT_notice;
}
