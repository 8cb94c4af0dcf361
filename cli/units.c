/* SPDX-License-Identifier: MIT */
#include "cli/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct unit {
    const char *name;
    double factor;
};

/* Longer names come before their own beginnings. */
static const struct unit size_units[] = {
    { "KiB", 1024.0 }, { "MiB", 1048576.0 }, { "GiB", 1073741824.0 }, { "TiB", 1099511627776.0 },
    { "KB", 1024.0 },  { "MB", 1048576.0 },  { "GB", 1073741824.0 },  { "TB", 1099511627776.0 },
    { "K", 1024.0 },   { "M", 1048576.0 },   { "G", 1073741824.0 },   { "T", 1099511627776.0 },
    { "B", 1.0 },
};

static const struct unit time_units[] = {
    { "ms", 1.0 },      { "s", 1000.0 },     { "m", 60000.0 },
    { "h", 3600000.0 }, { "d", 86400000.0 }, { "w", 604800000.0 },
};

/* What a double counts exactly. */
#define EXACT_MOST 9007199254740992.0

/* Digits with at most one point; not strtod, which also takes signs, "inf", "0x" and locales. */
static bool take_decimal(const char **at, double *ret_value)
{
    double value = 0;
    double scale = 0;
    unsigned digits = 0;
    for (;; (*at)++) {
        if (**at == '.' && scale == 0) {
            scale = 1;
        } else if (isdigit((unsigned char)**at)) {
            digits++;
            value = value * 10 + (**at - '0');
            scale *= 10;
        } else {
            break;
        }
    }
    *ret_value = scale > 0 ? value / scale : value;
    return digits > 0 && digits <= 15;
}

static double take_unit(const char **at, const struct unit *units, size_t count, double none)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(units[i].name);
        if (strncmp(*at, units[i].name, size) == 0) {
            *at += size;
            return units[i].factor;
        }
    }
    return **at ? 0 : none;
}

bool units_parse_size(const char *text, uint64_t *ret_bytes)
{
    double value = 0;
    if (!take_decimal(&text, &value))
        return false;
    size_t count = sizeof(size_units) / sizeof(size_units[0]);
    value *= take_unit(&text, size_units, count, 1);
    bool complete = *text == '\0';
    if (!complete || value > EXACT_MOST)
        return false;
    *ret_bytes = (uint64_t)value;
    return true;
}

bool units_parse_time(const char *text, uint64_t *ret_ms)
{
    size_t count = sizeof(time_units) / sizeof(time_units[0]);
    bool first = true;
    double sum = 0;
    do {
        double value = 0;
        if (!take_decimal(&text, &value))
            return false;
        double factor = take_unit(&text, time_units, count, first ? 1000 : 0);
        if (factor == 0)
            return false;
        sum += value * factor;
        first = false;
    } while (*text);
    if (sum > EXACT_MOST)
        return false;
    *ret_ms = (uint64_t)sum;
    return true;
}

uint64_t units_whole_seconds(uint64_t ms) { return ms / 1000 + (ms % 1000 != 0); }

bool units_parse_number(const char *text, uint64_t most, uint64_t *ret_number)
{
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (digit > most || value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_number = value;
    return true;
}

const char *units_size(uint64_t bytes, char text[UNITS_TEXT_MOST])
{
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    size_t i = 0;
    /* 1023.95 and more would be written as 1024.0. */
    for (; value >= 1023.95 && i + 1 < sizeof(names) / sizeof(names[0]); i++)
        value /= 1024;
    snprintf(text, UNITS_TEXT_MOST, i == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
             names[i]);
    return text;
}

static void long_time(double seconds, char text[UNITS_TEXT_MOST])
{
    uint64_t s = seconds < 1e15 ? (uint64_t)(seconds + 0.5) : (uint64_t)1e15;
    if (s < 3600)
        snprintf(text, UNITS_TEXT_MOST, "%u m %02u s", (unsigned)(s / 60), (unsigned)(s % 60));
    else if (s < 86400)
        snprintf(text, UNITS_TEXT_MOST, "%u h %02u m", (unsigned)(s / 3600),
                 (unsigned)(s / 60 % 60));
    else
        snprintf(text, UNITS_TEXT_MOST, "%llu d %02u h", (unsigned long long)(s / 86400),
                 (unsigned)(s / 3600 % 24));
}

const char *units_seconds(double seconds, char text[UNITS_TEXT_MOST])
{
    static const struct unit units[] = { { "ns", 1e9 }, { "us", 1e6 }, { "ms", 1e3 }, { "s", 1 } };
    if (!(seconds > 0)) {
        snprintf(text, UNITS_TEXT_MOST, "0 s");
    } else if (seconds >= 119.95) {
        long_time(seconds, text);
    } else {
        size_t i = 0;
        while (i < 3 && seconds * units[i].factor >= 999.5)
            i++;
        double value = seconds * units[i].factor;
        snprintf(text, UNITS_TEXT_MOST, "%.*f %s",
                 value < 9.995   ? 2
                 : value < 99.95 ? 1
                                 : 0,
                 value, units[i].name);
    }
    return text;
}

const char *units_count(uint64_t count, char text[UNITS_TEXT_MOST])
{
    char digits[24];
    int size = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    size_t used = 0;
    for (int i = 0; i < size; i++) {
        if (i > 0 && (size - i) % 3 == 0)
            text[used++] = ' ';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *units_kernels(uint64_t count, char text[UNITS_TEXT_MOST])
{
    char number[UNITS_TEXT_MOST];
    snprintf(text, UNITS_TEXT_MOST, "%.22s kernel%s", units_count(count, number),
             count == 1 ? "" : "s");
    return text;
}

const char *units_when(uint64_t epoch_s, char text[UNITS_TEXT_MOST])
{
    time_t when = (time_t)epoch_s;
    struct tm local;
    if (epoch_s == 0 || !localtime_r(&when, &local) ||
        strftime(text, UNITS_TEXT_MOST, "%Y-%m-%d %H:%M", &local) == 0)
        snprintf(text, UNITS_TEXT_MOST, "-");
    return text;
}
