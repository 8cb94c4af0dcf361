/* SPDX-License-Identifier: MIT */
#include "common/base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Printing uses the first row whose factor divides the value, so the factors decrease to 1. The
 * rows after the factor 1 are used only to parse. */
static const struct unit size_units[] = {
    { "TiB", 1ull << 40 },
    { "TB", 1000000000000 },
    { "GiB", 1ull << 30 },
    { "GB", 1000000000 },
    { "MiB", 1ull << 20 },
    { "MB", 1000000 },
    { "KiB", 1ull << 10 },
    { "kB", 1000 },
    { "B", 1 },
    { "T", 1ull << 40 },
    { "G", 1ull << 30 },
    { "M", 1ull << 20 },
    { "K", 1ull << 10 },
    { NULL, 0 },
};

static const struct unit time_units[] = {
    { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 },     { "s", 1000 },
    { "ms", 1 },       { "min", 60000 }, { "w", 604800000 }, { NULL, 0 },
};

#define EXACT_MAX 9007199254740992u
/* Maximum of the digits after the point, read as a number. A unit's factor is at most 2^40, so the
 * product of the two fits 64 bits. */
#define FRACTION_MAX 1000000

struct decimal {
    uint64_t whole;
    uint64_t fraction, scale;
};

static uint64_t take_digits(const char **at, uint64_t max, uint64_t *ret_scale)
{
    uint64_t value = 0;
    for (*ret_scale = 1; isdigit((unsigned char)**at) && *ret_scale < max; (*at)++) {
        value = value * 10 + (uint64_t)(**at - '0');
        *ret_scale *= 10;
    }
    return value;
}

/* Does not use strtod, which also accepts signs, "inf", "0x" and the locale's decimal point. */
static bool take_decimal(const char **at, struct decimal *ret_value)
{
    const char *start = *at;
    uint64_t ignored;
    ret_value->whole = take_digits(at, 10000000000000000, &ignored);
    ret_value->fraction = 0;
    ret_value->scale = 1;
    size_t digits = (size_t)(*at - start);
    if (**at == '.') {
        (*at)++;
        start = *at;
        ret_value->fraction = take_digits(at, FRACTION_MAX, &ret_value->scale);
        digits += (size_t)(*at - start);
    }
    return digits > 0 && !isdigit((unsigned char)**at) && **at != '.';
}

static void skip_spaces(const char **at)
{
    while (**at == ' ')
        (*at)++;
}

static uint64_t take_unit(const char **at, const struct unit *units, uint64_t none)
{
    size_t size = 0;
    while (isalpha((unsigned char)(*at)[size]))
        size++;
    if (size == 0)
        return **at ? 0 : none;
    bool any_case =
        /* Upper and lower case mean the same in sizes ("5g"), but not in times, because "M" could
         * mean a month. */
        units == size_units;
    for (; units->name; units++) {
        if (strlen(units->name) == size && (any_case ? strncasecmp(*at, units->name, size)
                                                     : strncmp(*at, units->name, size)) == 0) {
            *at += size;
            return units->factor;
        }
    }
    return 0;
}

static bool take_quantity(const char **at, const struct unit *units, uint64_t none, uint64_t *sum)
{
    struct decimal value;
    uint64_t whole;
    if (!take_decimal(at, &value))
        return false;
    skip_spaces(at);
    uint64_t factor = take_unit(at, units, none);
    if (factor == 0 || __builtin_mul_overflow(value.whole, factor, &whole) || whole > EXACT_MAX)
        return false;
    *sum += whole + value.fraction * factor / value.scale;
    return *sum <= EXACT_MAX;
}

bool units_parse_size(const char *text, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;
    if (!take_quantity(&text, size_units, 1, &bytes) || *text)
        return false;
    *ret_bytes = bytes;
    return true;
}

bool units_parse_time(const char *text, uint64_t *ret_ms)
{
    uint64_t ms = 0;
    /* A number without a unit means seconds, but only if it is alone: "1d12" is an error. */
    uint64_t none = 1000;
    do {
        if (!take_quantity(&text, time_units, none, &ms))
            return false;
        skip_spaces(&text);
        none = 0;
    } while (*text);
    *ret_ms = ms;
    return true;
}

uint64_t units_whole_seconds(uint64_t ms) { return ms / 1000 + (ms % 1000 != 0); }

bool units_parse_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    uint64_t value = 0;
    if (!text || !*text)
        return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (digit > max || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_number = value;
    return true;
}

const char *units_size(uint64_t bytes, char text[UNITS_TEXT_MAX])
{
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    size_t i = 0;
    /* A value of 1023.95 or more gets the next unit, because it would be printed as 1024.0. */
    for (; value >= 1023.95 && i + 1 < sizeof(names) / sizeof(names[0]); i++)
        value /= 1024;
    snprintf(text, UNITS_TEXT_MAX, i == 0 || value >= 99.95 ? "%.0f %s" : "%.1f %s", value,
             names[i]);
    return text;
}

static void long_time(double seconds, char text[UNITS_TEXT_MAX])
{
    uint64_t s = seconds < 1e15 ? (uint64_t)(seconds + 0.5) : (uint64_t)1e15;
    if (s < 3600)
        snprintf(text, UNITS_TEXT_MAX, "%u m %02u s", (unsigned)(s / 60), (unsigned)(s % 60));
    else if (s < 86400)
        snprintf(text, UNITS_TEXT_MAX, "%u h %02u m", (unsigned)(s / 3600),
                 (unsigned)(s / 60 % 60));
    else
        snprintf(text, UNITS_TEXT_MAX, "%llu d %02u h", (unsigned long long)(s / 86400),
                 (unsigned)(s / 3600 % 24));
}

static const char *print_exactly(const struct unit *units, uint64_t value,
                                 char text[UNITS_TEXT_MAX])
{
    while (value % units->factor != 0)
        units++;
    snprintf(text, UNITS_TEXT_MAX, "%llu%s", (unsigned long long)(value / units->factor),
             units->name);
    return text;
}

const char *units_exact_size(uint64_t bytes, char text[UNITS_TEXT_MAX])
{
    if (bytes == 0)
        snprintf(text, UNITS_TEXT_MAX, "0");
    return bytes ? print_exactly(size_units, bytes, text) : text;
}

const char *units_exact_time(uint64_t ms, char text[UNITS_TEXT_MAX])
{
    if (ms == 0)
        snprintf(text, UNITS_TEXT_MAX, "0s");
    return ms ? print_exactly(time_units, ms, text) : text;
}

const char *units_seconds(double seconds, char text[UNITS_TEXT_MAX])
{
    static const struct unit units[] = {
        { "ns", 1000000000 }, { "us", 1000000 }, { "ms", 1000 }, { "s", 1 }
    };
    if (!(seconds > 0)) {
        snprintf(text, UNITS_TEXT_MAX, "0 s");
    } else if (seconds >= 119.95) {
        long_time(seconds, text);
    } else {
        size_t i = 0;
        while (i < 3 && seconds * (double)units[i].factor >= 999.5)
            i++;
        double value = seconds * (double)units[i].factor;
        snprintf(text, UNITS_TEXT_MAX, "%.*f %s",
                 value < 9.995   ? 2
                 : value < 99.95 ? 1
                                 : 0,
                 value, units[i].name);
    }
    return text;
}

const char *units_count(uint64_t count, char text[UNITS_TEXT_MAX])
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

const char *units_kernels(uint64_t count, char text[UNITS_TEXT_MAX])
{
    char number[UNITS_TEXT_MAX];
    snprintf(text, UNITS_TEXT_MAX, "%.22s kernel%s", units_count(count, number),
             count == 1 ? "" : "s");
    return text;
}

const char *units_when(uint64_t epoch_s, char text[UNITS_TEXT_MAX])
{
    time_t when = (time_t)epoch_s;
    struct tm local;
    if (epoch_s == 0 || !localtime_r(&when, &local) ||
        strftime(text, UNITS_TEXT_MAX, "%Y-%m-%d %H:%M", &local) == 0)
        snprintf(text, UNITS_TEXT_MAX, "-");
    return text;
}
