/* SPDX-License-Identifier: MIT */
#include "libclient/conv/result.h"

#include "common/base/array.h"
#include "libclient/failure.h"
#include "libclient/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kiln_conv_result *conv_result_create(void)
{
    return calloc(1, sizeof(struct kiln_conv_result));
}

static void conv_list_done(struct conv_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        /* The four texts of an entry are in one allocation, which |solver| points to. */
        free((char *)(uintptr_t)list->entries[i].solver);
    free(list->entries);
}

void kiln_conv_result_free(struct kiln_conv_result *result)
{
    if (!result)
        return;
    conv_list_done(&result->solvers);
    conv_list_done(&result->trials);
    kiln_plan_unref(result->plan);
    free(result);
}

enum kiln_code conv_list_add(struct conv_list *list, const struct kiln_conv_entry *entry,
                             struct kiln_err *err)
{
    const char *const texts[] = { entry->solver, entry->algorithm, entry->config, entry->reason };
    size_t size = 0;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        size += (texts[i] ? strlen(texts[i]) : 0) + 1;
    if (!ARRAY_RESERVE(list->entries, list->count, list->capacity, 16))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory after %u results", list->count);
    char *at = malloc(size);
    if (!at)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a result");
    struct kiln_conv_entry *added = &list->entries[list->count++];
    *added = *entry;
    added->size = sizeof(*added);
    added->solver = bytes_pack_text(&at, bytes_of_text(entry->solver));
    added->algorithm = bytes_pack_text(&at, bytes_of_text(entry->algorithm));
    added->config = bytes_pack_text(&at, bytes_of_text(entry->config));
    added->reason = bytes_pack_text(&at, bytes_of_text(entry->reason));
    return KILN_OK;
}

static int rank_of(const struct kiln_conv_entry *e)
{
    switch (e->state) {
    case KILN_CONV_TIMED:
    case KILN_CONV_RECORDED: return 0;
    case KILN_CONV_CUT_SHORT: return 1;
    default: return 2;
    }
}

static bool comes_before(const struct kiln_conv_entry *a, const struct kiln_conv_entry *b)
{
    if (rank_of(a) != rank_of(b))
        return rank_of(a) < rank_of(b);
    return rank_of(a) < 2 && a->median_ms < b->median_ms;
}

void conv_list_sort(struct conv_list *list)
{
    for (unsigned i = 1; i < list->count; i++) {
        struct kiln_conv_entry moved = list->entries[i];
        unsigned at = i;
        for (; at > 0 && comes_before(&moved, &list->entries[at - 1]); at--)
            list->entries[at] = list->entries[at - 1];
        list->entries[at] = moved;
    }
}

static int copy_entry(const struct conv_list *list, unsigned index,
                      struct kiln_conv_entry *ret_entry, struct kiln_error *err)
{
    if (!ret_entry || !sized_is_fine(ret_entry->size, SIZED_TO(struct kiln_conv_entry, tried)))
        return error_argument(err, "kiln_conv_entry.size is not set: give it sizeof the struct");
    if (index >= list->count)
        return error_argument(err, "there is no entry %u: the result has %u", index, list->count);
    size_t size = ret_entry->size;
    const struct kiln_conv_entry *e = &list->entries[index];
    memcpy(ret_entry, e, size < sizeof(*e) ? size : sizeof(*e));
    ret_entry->size = size;
    return KILN_E_OK;
}

unsigned kiln_conv_result_count(const struct kiln_conv_result *result)
{
    return result->solvers.count;
}

int kiln_conv_result_entry(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err)
{
    return copy_entry(&result->solvers, index, ret_entry, err);
}

unsigned kiln_conv_result_trial_count(const struct kiln_conv_result *result)
{
    return result->trials.count;
}

int kiln_conv_result_trial(const struct kiln_conv_result *result, unsigned index,
                           struct kiln_conv_entry *ret_entry, struct kiln_error *err)
{
    return copy_entry(&result->trials, index, ret_entry, err);
}

struct kiln_plan *kiln_conv_result_plan(const struct kiln_conv_result *result)
{
    return result->plan;
}

int kiln_conv_result_recorded(const struct kiln_conv_result *result, struct kiln_error *err)
{
    return error_return(&result->not_recorded, result->not_recorded.code, err);
}

const char *kiln_conv_state_name(int state)
{
    static const char *const names[] = {
        [KILN_CONV_TIMED] = "TIMED",         [KILN_CONV_RECORDED] = "RECORDED",
        [KILN_CONV_CUT_SHORT] = "CUT_SHORT", [KILN_CONV_UNTIMED] = "UNTIMED",
        [KILN_CONV_WRONG] = "WRONG",         [KILN_CONV_NOT_COMPILED] = "NOT_COMPILED",
        [KILN_CONV_NOT_RUN] = "NOT_RUN",
    };
    return state >= 0 && (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}
