/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define METRICS_SERIES_MAX 1024
#define METRICS_NAME_MAX 192

struct metrics_page {
    size_t count;
    /* series names with labels, such as "kiln_clients" */
    char names[METRICS_SERIES_MAX][METRICS_NAME_MAX];
    char numbers[METRICS_SERIES_MAX][32];
};

/* Requests kilnd's metrics over |fd|, after the handshake. Fails the test without an answer. */
void metrics_page_read(int fd, struct metrics_page *ret_page);
/* Returns the value of series |name|, borrowed from |page|, or NULL if there is no such series. */
const char *metrics_page_find(const struct metrics_page *page, const char *name);
/* Like metrics_page_find, but fails the test if there is no such series. */
const char *metrics_page_number(const struct metrics_page *page, const char *name);
/* Returns the value of series |name|, or 0 if there is no such series: kilnd exports the count
 * of an error only after the error has occurred. */
uint64_t metrics_page_count(const struct metrics_page *page, const char *name);
uint64_t metrics_page_sum(const struct metrics_page *page, const char *prefix);
