/* SPDX-License-Identifier: MIT */
#include "common/log/log_record.h"

#include "common/base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define IDENTIFIER "kilnd"

static void put_text(struct buffer *out, const char *text) { buffer_put(out, text, strlen(text)); }

static void put_number(struct buffer *out, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    put_text(out, text);
}

static void put_escaped(struct buffer *out, char kind, int digits, unsigned number)
{
    char escaped[8];
    snprintf(escaped, sizeof(escaped), "\\%c%0*x", kind, digits, number);
    put_text(out, escaped);
}

/* Also escapes bytes that are not UTF-8, which may be control characters on a terminal with an
 * 8-bit character set. */
static void put_on_one_line(struct buffer *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t size; *at; at += size) {
        bool is_plain = utf8_size(at) > 0 && !utf8_control(at);
        size = is_plain ? utf8_size(at) : 1;
        if (is_plain)
            buffer_put(out, at, size);
        else if (*at == '\n')
            put_text(out, "\\n");
        else
            put_escaped(out, 'x', 2, *at);
    }
}

void log_record_text(struct buffer *line, const struct log_record *record, bool for_stream)
{
    char prefix[8];
    snprintf(prefix, sizeof(prefix), "<%d>", record->priority);
    put_text(line, for_stream ? prefix : record->level);
    if (!for_stream)
        put_text(line, ": ");
    put_on_one_line(line, record->message);
    buffer_put_u8(line, '\n');
}

static void put_json_text(struct buffer *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    buffer_put_u8(out, '"');
    while (*at) {
        size_t size = utf8_size(at);
        if (size == 0)
            put_text(out, "\\ufffd");
        else if (utf8_control(at))
            put_escaped(out, 'u', 4, utf8_control(at));
        else if (*at == '"' || *at == '\\')
            put_text(out, *at == '"' ? "\\\"" : "\\\\");
        else
            buffer_put(out, at, size);
        at += size ? size : 1;
    }
    buffer_put_u8(out, '"');
}

static void put_member(struct buffer *out, const char *name, const char *value)
{
    put_text(out, ",\"");
    put_text(out, name);
    put_text(out, "\":");
    put_json_text(out, value);
}

static void put_number_member(struct buffer *out, const char *name, uint64_t value)
{
    put_text(out, ",\"");
    put_text(out, name);
    put_text(out, "\":");
    put_number(out, value);
}

static void put_time(struct buffer *out, uint64_t wall_us)
{
    char text[64];
    struct tm parts;
    time_t seconds = (time_t)(wall_us / 1000000);
    gmtime_r(&seconds, &parts);
    size_t size = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + size, sizeof(text) - size, ".%06uZ", (unsigned)(wall_us % 1000000));
    put_text(out, "{\"time\":");
    put_json_text(out, text);
}

void log_record_json(struct buffer *line, const struct log_record *record)
{
    static const struct log_fields none;
    const struct log_fields *fields = record->fields ? record->fields : &none;
    char key[DIGEST_HEX_SIZE];
    put_time(line, record->wall_us);
    put_member(line, "level", record->level);
    if (record->event) {
        put_member(line, "event", record->event);
        put_member(line, "message_id", record->id);
    }
    put_member(line, "message", record->message);
    if (fields->key) {
        digest_to_hex(fields->key, key);
        put_member(line, "key", key);
    }
    if (fields->uid)
        put_number_member(line, "uid", *fields->uid);
    if (fields->target)
        put_member(line, "target", fields->target);
    if (fields->duration_us)
        put_number_member(line, "duration_us", fields->duration_us);
    put_text(line, "}\n");
}

static void put_field(struct buffer *out, const char *name, const char *value)
{
    size_t size = strlen(value);
    put_text(out, name);
    if (memchr(value, '\n', size)) {
        buffer_put_u8(out, '\n');
        buffer_put_u64(out, size);
    } else {
        buffer_put_u8(out, '=');
    }
    buffer_put(out, value, size);
    buffer_put_u8(out, '\n');
}

static void put_number_field(struct buffer *out, const char *name, uint64_t value)
{
    put_text(out, name);
    buffer_put_u8(out, '=');
    put_number(out, value);
    buffer_put_u8(out, '\n');
}

void log_record_journal(struct buffer *out, const struct log_record *record)
{
    static const struct log_fields none;
    const struct log_fields *fields = record->fields ? record->fields : &none;
    char key[DIGEST_HEX_SIZE];
    put_field(out, "MESSAGE", record->message);
    put_number_field(out, "PRIORITY", (uint64_t)record->priority);
    put_field(out, "SYSLOG_IDENTIFIER", IDENTIFIER);
    if (record->event) {
        put_field(out, "MESSAGE_ID", record->id);
        put_field(out, "KILN_EVENT", record->event);
    }
    if (fields->key) {
        digest_to_hex(fields->key, key);
        put_field(out, "KILN_KEY", key);
    }
    if (fields->uid)
        put_number_field(out, "KILN_UID", *fields->uid);
    if (fields->target)
        put_field(out, "KILN_TARGET", fields->target);
    if (fields->duration_us)
        put_number_field(out, "KILN_DURATION_USEC", fields->duration_us);
}
