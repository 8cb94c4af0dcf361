/* SPDX-License-Identifier: MIT */
#include "common/base/sorted_runs.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS_MIN 1024u
#define RUNS_MIN 64u

void sorted_runs_done(struct sorted_runs *r)
{
    free(r->items);
    free(r->runs);
    *r = (struct sorted_runs){ .count = 0 };
}

static uint8_t *item_at(const struct sorted_runs *r, size_t index)
{
    return r->items + index * r->item_size;
}

bool sorted_runs_add(struct sorted_runs *r, const void *item)
{
    if (r->count == r->max) {
        size_t max = r->max ? 2 * r->max : ITEMS_MIN;
        uint8_t *more = reallocarray(r->items, max, r->item_size);
        if (!more)
            return false;
        r->items = more;
        r->max = max;
    }
    memcpy(item_at(r, r->count++), item, r->item_size);
    return true;
}

static bool extends_last(const struct sorted_runs *r, void *context)
{
    return r->run_count > 0 &&
           r->compare(item_at(r, r->sorted - 1), item_at(r, r->sorted), context) < 0;
}

static bool add_run(struct sorted_runs *r)
{
    if (r->run_count == r->run_max) {
        size_t max = r->run_max ? 2 * r->run_max : RUNS_MIN;
        struct sorted_run *more = reallocarray(r->runs, max, sizeof(*more));
        if (!more)
            return false;
        r->runs = more;
        r->run_max = max;
    }
    r->runs[r->run_count++] = (struct sorted_run){ .next = r->sorted, .end = r->count };
    return true;
}

bool sorted_runs_end_run(struct sorted_runs *r, void *context)
{
    if (r->count == r->sorted)
        return true;
    qsort_r(item_at(r, r->sorted), r->count - r->sorted, r->item_size, r->compare, context);
    if (extends_last(r, context))
        r->runs[r->run_count - 1].end = r->count;
    else if (!add_run(r))
        return false;
    r->sorted = r->count;
    return true;
}

/* ---- the heap of runs: a run's next item never comes before the next item of the run's parent
 * ---- */

static bool is_before(const struct sorted_runs *r, size_t a, size_t b, void *context)
{
    return r->compare(item_at(r, r->runs[a].next), item_at(r, r->runs[b].next), context) < 0;
}

static void sink(struct sorted_runs *r, size_t at, void *context)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < r->run_count; child++)
            least = is_before(r, child, least, context) ? child : least;
        if (least == at)
            return;
        struct sorted_run run = r->runs[at];
        r->runs[at] = r->runs[least];
        r->runs[least] = run;
        at = least;
    }
}

void sorted_runs_merge(struct sorted_runs *r, void *context)
{
    for (size_t i = r->run_count / 2; i > 0; i--)
        sink(r, i - 1, context);
}

const void *sorted_runs_peek(const struct sorted_runs *r)
{
    return r->run_count > 0 ? item_at(r, r->runs[0].next) : NULL;
}

void sorted_runs_pop(struct sorted_runs *r, void *context)
{
    if (++r->runs[0].next == r->runs[0].end)
        r->runs[0] = r->runs[--r->run_count];
    sink(r, 0, context);
}
