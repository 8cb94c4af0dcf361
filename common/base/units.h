/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sizes and times, parsed from users' input and formatted for output.  kilnctl, kiln-driver and
 * kilnd's settings all use this grammar.
 *
 *   sizes      4096, 20GB, 1.5GiB, 64K.  kB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and
 *              TiB powers of 1024, and so are K, M, G and T, as in systemd's settings.  Upper and
 *              lower case mean the same: 5g is 5G.
 *   times      90 (seconds), 500ms, 90s, 30m or 30min, 12h, 30d, 2w, and sums: 1d12h.  Lower case.
 *
 * A fraction has at most six digits.  Spaces are allowed before a unit.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_TEXT_MAX 32

/* Descriptions of valid values, for messages: "'x' is not " followed by one of these. */
#define UNITS_SIZE_FORM                                                                          \
    "a size such as 20GB: a number and B, kB, MB, GB, TB (powers of 1000), or K, M, G, T, KiB, " \
    "MiB, GiB, TiB (powers of 1024)"
#define UNITS_TIME_FORM "a time such as 90s or 1d12h: numbers, each with ms, s, m or min, h, d or w"

/* Parses a size.  Returns false, with the result unchanged, unless all of |text| is a size. */
bool units_parse_size(const char *text, uint64_t *ret_bytes);
/* Like units_parse_size, for a time.  Fractions of a millisecond are truncated. */
bool units_parse_time(const char *text, uint64_t *ret_ms);
/* Converts to seconds and rounds up, so that "older than" never includes more than the user
 * meant. */
uint64_t units_whole_seconds(uint64_t ms);
/* Parses a number of decimal digits only, with a value of at most |max|.  Returns false for any
 * other text, and for NULL. */
bool units_parse_number(const char *text, uint64_t max, uint64_t *ret_number);

/* The following functions write a text for people to |text|, and return |text|. */
const char *units_size(uint64_t bytes, char text[UNITS_TEXT_MAX]);    /* "1.5 MiB" */
const char *units_seconds(double seconds, char text[UNITS_TEXT_MAX]); /* "12.3 ms", "2 h 05 m" */
const char *units_count(uint64_t count, char text[UNITS_TEXT_MAX]);   /* "148 096" */
const char *units_kernels(uint64_t count, char text[UNITS_TEXT_MAX]); /* "1 kernel" */
/* Write the exact value in the form that units_parse_size or units_parse_time reads: "512MiB",
 * "20GB", "5m".  Zero is "0" or "0s". */
const char *units_exact_size(uint64_t bytes, char text[UNITS_TEXT_MAX]);
const char *units_exact_time(uint64_t ms, char text[UNITS_TEXT_MAX]);
/* Writes a time, given in seconds since the epoch, as local time: "2026-01-31 14:05"; "-" for 0. */
const char *units_when(uint64_t epoch_s, char text[UNITS_TEXT_MAX]);
