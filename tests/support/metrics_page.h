/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The metrics of a kilnd at one moment.
 *
 * Ownership  a page owns its texts; results are borrowed from it
 */
#include <stddef.h>
#include <stdint.h>

#define METRICS_SERIES_MAX 1024
#define METRICS_NAME_MAX 192

struct metrics_page {
    size_t count;
    /* names with labels, such as "kiln_clients" */
    char names[METRICS_SERIES_MAX][METRICS_NAME_MAX];
    char numbers[METRICS_SERIES_MAX][32];
};

/* Requests the metrics on connection |fd|, after hello. Fails the test if no page is received. */
void metrics_page_read(int fd, struct metrics_page *ret_page);
/* Returns the value of a series, or NULL if there is no such series. */
const char *metrics_page_find(const struct metrics_page *page, const char *name);
/* Returns the value of a series. Fails the test if there is no such series. */
const char *metrics_page_number(const struct metrics_page *page, const char *name);
/* Returns the value of a series, or 0 if there is no such series, because an error that has not
 * occurred yet has none. */
uint64_t metrics_page_count(const struct metrics_page *page, const char *name);
/* Returns the sum of all series whose names begin with this text. */
uint64_t metrics_page_sum(const struct metrics_page *page, const char *prefix);
