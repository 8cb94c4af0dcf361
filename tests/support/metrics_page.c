/* SPDX-License-Identifier: MIT */
#include "tests/support/metrics_page.h"

#include "tests/support/raw_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_line(struct metrics_page *page, const char *line, size_t size)
{
    const char *blank = memrchr(line, ' ', size);
    if (size == 0 || line[0] == '#')
        return;
    assert_non_null(blank);
    assert_true(page->count < METRICS_SERIES_MAX && (size_t)(blank - line) < METRICS_NAME_MAX);
    snprintf(page->names[page->count], METRICS_NAME_MAX, "%.*s", (int)(blank - line), line);
    snprintf(page->numbers[page->count++], sizeof(page->numbers[0]), "%.*s",
             (int)(line + size - blank - 1), blank + 1);
}

void metrics_page_read(int fd, struct metrics_page *page)
{
    KILN_AUTO(json) struct json *answer = raw_ask(fd, MESSAGE_metrics, "{}");
    page->count = 0;
    for (const char *at = json_get_text(answer, "text", ""); *at;) {
        size_t size = strcspn(at, "\n");
        take_line(page, at, size);
        at += size + (at[size] == '\n');
    }
    assert_true(page->count > 100);
}

const char *metrics_page_find(const struct metrics_page *page, const char *name)
{
    for (size_t i = 0; i < page->count; i++) {
        if (strcmp(page->names[i], name) == 0)
            return page->numbers[i];
    }
    return NULL;
}

const char *metrics_page_number(const struct metrics_page *page, const char *name)
{
    const char *number = metrics_page_find(page, name);
    if (!number)
        fail_msg("there is no '%s'", name);
    return number;
}

uint64_t metrics_page_count(const struct metrics_page *page, const char *name)
{
    const char *number = metrics_page_find(page, name);
    return number ? strtoull(number, NULL, 10) : 0;
}

uint64_t metrics_page_sum(const struct metrics_page *page, const char *prefix)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < page->count; i++) {
        if (strncmp(page->names[i], prefix, strlen(prefix)) == 0)
            sum += strtoull(page->numbers[i], NULL, 10);
    }
    return sum;
}
