/* SPDX-License-Identifier: MIT */
#include "engine/transfer/fleet_ranges.h"

#include <stdlib.h>
#include <string.h>

static int compare_requests(const void *a, const void *b)
{
    const struct fleet_request *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order)
        return order;
    if ((x->size == 0) != (y->size == 0))
        return x->size == 0 ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void fleet_ranges_sort(struct fleet_request *requests, size_t count)
{
    qsort(requests, count, sizeof(*requests), compare_requests);
}

static uint64_t end_of(const struct fleet_request *request)
{
    uint64_t end = request->offset + request->size;
    return end < request->offset ? UINT64_MAX : end;
}

static bool joins(const struct fleet_range *range, const struct fleet_request *next)
{
    if (next->size == 0 || strcmp(range->requests->name, next->name) != 0)
        return false;
    bool is_near = next->offset <= range->end || next->offset - range->end <= FLEET_GAP_MAX;
    return is_near && end_of(next) - range->first <= FLEET_RANGE_MAX;
}

struct fleet_range fleet_ranges_first(struct fleet_request *requests, size_t count)
{
    struct fleet_range range = { .requests = requests, .count = 1 };
    if (requests->size == 0)
        return range;
    range.first = requests->offset;
    range.end = end_of(requests);
    while (range.count < count && joins(&range, &requests[range.count])) {
        uint64_t end = end_of(&requests[range.count]);
        range.end = end > range.end ? end : range.end;
        range.count++;
    }
    return range;
}
