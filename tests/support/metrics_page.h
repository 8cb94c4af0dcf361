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
    char names[METRICS_SERIES_MAX][METRICS_NAME_MAX]; /* with labels: "kiln_clients" */
    char numbers[METRICS_SERIES_MAX][32];
};

/* Requests the metrics on connection |fd| (after hello). The test fails if no page comes. */
void metrics_page_read(int fd, struct metrics_page *ret_page);
/* NULL if there is no such series. */
const char *metrics_page_find(const struct metrics_page *page, const char *name);
/* The test fails if there is no such series. */
const char *metrics_page_number(const struct metrics_page *page, const char *name);
/* 0 if there is no such series: an error that has not occurred yet has none. */
uint64_t metrics_page_count(const struct metrics_page *page, const char *name);
/* The sum of all series whose names begin with this text. */
uint64_t metrics_page_sum(const struct metrics_page *page, const char *prefix);
