/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sizes and times, read from people and written for them.
 *
 *   sizes      4096, 64K, 1.5M, 2G, with or without "B" or "iB"; powers of 1024
 *   times      90 (seconds), 500ms, 90s, 30m, 12h, 30d, 2w, and sums: 1d12h
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_TEXT_MOST 32

/* False, leaving the result alone, unless all of |text| is a size. */
bool units_parse_size(const char *text, uint64_t *ret_bytes);
/* The same for a time.  Parts of a millisecond are cut off. */
bool units_parse_time(const char *text, uint64_t *ret_ms);
/* Rounded up, so that "older than" never takes more than was meant. */
uint64_t units_whole_seconds(uint64_t ms);
/* Decimal digits only, at most |most|. */
bool units_parse_number(const char *text, uint64_t most, uint64_t *ret_number);

/* Each returns |text|. */
const char *units_size(uint64_t bytes, char text[UNITS_TEXT_MOST]);    /* "1.5 MiB" */
const char *units_seconds(double seconds, char text[UNITS_TEXT_MOST]); /* "12.3 ms", "2 h 05 m" */
const char *units_count(uint64_t count, char text[UNITS_TEXT_MOST]);   /* "148 096" */
const char *units_kernels(uint64_t count, char text[UNITS_TEXT_MOST]); /* "1 kernel" */
/* Seconds since the epoch, in local time: "2026-01-31 14:05"; "-" for 0. */
const char *units_when(uint64_t epoch_s, char text[UNITS_TEXT_MOST]);
