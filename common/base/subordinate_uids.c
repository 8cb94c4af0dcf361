/* SPDX-License-Identifier: MIT */
#include "common/base/subordinate_uids.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint32_t first, count;
};

static struct {
    struct range *items; /* sorted */
    size_t count;
} ranges;

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int compare_with_uid(const void *key, const void *element)
{
    const uid_t uid = *(const uid_t *)key;
    const struct range *range = element;
    return uid < range->first ? -1 : uid - range->first >= range->count;
}

static const struct range *range_of(uid_t uid)
{
    return ranges.count
               ? bsearch(&uid, ranges.items, ranges.count, sizeof(*ranges.items), compare_with_uid)
               : NULL;
}

static bool parse_range(const char *line, struct range *ret_range)
{
    const bool is_of_root = strncmp(line, "root:", 5) == 0 || strncmp(line, "0:", 2) == 0;
    unsigned long first, count;
    if (is_of_root || sscanf(line, "%*[^:]:%lu:%lu", &first, &count) != 2 || first > UINT32_MAX ||
        count > UINT32_MAX)
        return false;
    *ret_range = (struct range){ (uint32_t)first, (uint32_t)count };
    return true;
}

static bool add_range(const struct range *range)
{
    struct range *items = realloc(ranges.items, (ranges.count + 1) * sizeof(*items));
    if (!items)
        return false;
    items[ranges.count++] = *range;
    ranges.items = items;
    return true;
}

static enum kiln_code read_lines(FILE *file, const char *path, struct kiln_err *err)
{
    char line[512]; /* a user's name has at most 256 bytes */
    struct range range;
    while (fgets(line, sizeof(line), file)) {
        if (parse_range(line, &range) && !add_range(&range))
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the ranges of '%s'", path);
    }
    return ferror(file) ? kiln_fail_errno(err, errno, "cannot read '%s'", path) : KILN_OK;
}

enum kiln_code subordinate_uids_read(const char *path, struct kiln_err *err)
{
    free(ranges.items);
    ranges.items = NULL;
    ranges.count = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? KILN_OK : kiln_fail_errno(err, errno, "cannot open '%s'", path);
    enum kiln_code rc = read_lines(file, path, err);
    fclose(file);
    if (ranges.count)
        qsort(ranges.items, ranges.count, sizeof(*ranges.items), compare_ranges);
    return rc;
}

bool subordinate_uids_share_range(uid_t a, uid_t b)
{
    const struct range *range = range_of(a);
    return range && range == range_of(b);
}
