/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sizes and times, parsed from users' input and formatted for output.
 *
 *   sizes      4096, 20GB, 1.5GiB, 64K.  kB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and
 *              TiB powers of 1024, and so are K, M, G and T.  5g is 5G
 *   times      90 (seconds), 500ms, 90s, 30m or 30min, 12h, 30d, 2w, and sums: 1d12h.  Units are
 *              in lower case
 *
 * A fraction has at most six digits.  Spaces are allowed before a unit.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_TEXT_MAX 32

#define UNITS_SIZE_FORM                                                                          \
    "a size such as 20GB: a number and B, kB, MB, GB, TB (powers of 1000), or K, M, G, T, KiB, " \
    "MiB, GiB, TiB (powers of 1024)"
#define UNITS_TIME_FORM "a time such as 90s or 1d12h: numbers, each with ms, s, m or min, h, d or w"

/* Returns false, with the result unchanged, unless all of |text| is a size. */
bool units_parse_size(const char *text, uint64_t *ret_bytes);
/* Like units_parse_size, for a time.  Fractions of a millisecond are truncated. */
bool units_parse_time(const char *text, uint64_t *ret_ms);
uint64_t units_whole_seconds(uint64_t ms);
/* Accepts only decimal digits.  Returns false for any other text, for NULL and above |max|. */
bool units_parse_number(const char *text, uint64_t max, uint64_t *ret_number);

const char *units_size(uint64_t bytes, char text[UNITS_TEXT_MAX]);    /* "1.5 MiB" */
const char *units_seconds(double seconds, char text[UNITS_TEXT_MAX]); /* "12.3 ms", "2 h 05 m" */
const char *units_count(uint64_t count, char text[UNITS_TEXT_MAX]);   /* "148 096" */
const char *units_kernels(uint64_t count, char text[UNITS_TEXT_MAX]); /* "1 kernel" */
/* Write the exact value in a form that can be parsed: "512MiB", "20GB", "5m"; zero is "0" or
 * "0s". */
const char *units_exact_size(uint64_t bytes, char text[UNITS_TEXT_MAX]);
const char *units_exact_time(uint64_t ms, char text[UNITS_TEXT_MAX]);
/* Writes a time, given in seconds since the epoch, as local time: "2026-01-31 14:05"; "-" for 0. */
const char *units_when(uint64_t epoch_s, char text[UNITS_TEXT_MAX]);
