/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The metrics of a kilnd, as they stood at one moment.
 *
 * Ownership  a page owns its texts; what is found in it is borrowed
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

/* Asks over the greeted connection |fd|; the test fails when no page comes. */
void metrics_page_read(int fd, struct metrics_page *ret_page);
/* NULL when there is no such series. */
const char *metrics_page_find(const struct metrics_page *page, const char *name);
/* The test fails when there is none. */
const char *metrics_page_number(const struct metrics_page *page, const char *name);
/* 0 when there is none: an error that nobody got yet has no series. */
uint64_t metrics_page_count(const struct metrics_page *page, const char *name);
/* Of all series whose names begin so. */
uint64_t metrics_page_sum(const struct metrics_page *page, const char *prefix);
