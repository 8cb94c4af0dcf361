/* SPDX-License-Identifier: MIT */
#pragma once

/* The metrics of a kilnd at one moment. The page owns its texts. Results are borrowed from the
 * page. */
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

/* |fd| is a connection on which kilnd has already answered hello. Fails the test if no page is
 * received. */
void metrics_page_read(int fd, struct metrics_page *ret_page);
/* Returns the value of a series, or NULL if there is no such series. */
const char *metrics_page_find(const struct metrics_page *page, const char *name);
/* Fails the test if there is no such series. */
const char *metrics_page_number(const struct metrics_page *page, const char *name);
/* Returns 0 if there is no such series, because kilnd exports no series for an error before the
 * error occurs. */
uint64_t metrics_page_count(const struct metrics_page *page, const char *name);
/* Returns the sum of all series whose names begin with |prefix|. */
uint64_t metrics_page_sum(const struct metrics_page *page, const char *prefix);
